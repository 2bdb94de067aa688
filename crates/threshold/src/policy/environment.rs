//! Values from the environment: `"${NAME}"`, or `"${NAME:-default}"`, anywhere in a string. `$${` is a plain `${`.

use super::decode::{Node, Reader};

/// Puts the environment's values into `text`; notes what is missing or badly written.
pub(super) fn expand(text: &str, node: &Node<'_>, reader: &mut Reader<'_>) -> Option<String> {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(start) = rest.find("${") {
        if rest[..start].ends_with('$') {
            out.push_str(&rest[..start]);
            out.push('{');
            rest = &rest[start + 2..];
            continue;
        }
        out.push_str(&rest[..start]);
        let Some(length) = rest[start..].find('}') else {
            reader.note(
                node.at,
                &node.field,
                "\"${\" is not closed",
                "close it with \"}\", or write \"$${\" for the characters themselves",
            );
            return None;
        };
        out.push_str(&value(&rest[start + 2..start + length], node, reader)?);
        rest = &rest[start + length + 1..];
    }
    out.push_str(rest);
    Some(out)
}

/// The value of `NAME` or `NAME:-default`.
fn value(inside: &str, node: &Node<'_>, reader: &mut Reader<'_>) -> Option<String> {
    let (name, default) = match inside.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inside, None),
    };
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        let what = format!("{name:?} is no name of an environment variable");
        reader.note(node.at, &node.field, what, "use letters, digits and \"_\", as in \"${RATE:-100/min}\"");
        return None;
    }
    // An empty variable counts as missing, as in a shell's `:-`.
    let set = (reader.environment)(name).filter(|value| !value.is_empty());
    match set.or_else(|| default.map(str::to_owned)) {
        Some(value) => Some(value),
        None => {
            let what = format!("the environment variable {name} is not set");
            reader.note(
                node.at,
                &node.field,
                what,
                format!("set it, or give a default: \"${{{name}:-...}}\""),
            );
            None
        }
    }
}

//! `<<`: the fields of other maps, taken over.
//!
//! Readers of YAML differ on fields that are given twice, and the other service's differs from most. What they all read the
//! same is read here, and nothing else.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use super::Remark;
use super::yaml::{Node, Pair, Value};

/// `pairs` with those that their `<<` names. What stands behind it beats what it brings, and of a list earlier ones beat
/// later ones.
pub(super) fn merged(pairs: Vec<Pair>) -> Result<Vec<Pair>, Remark> {
    let Some(at) = pairs.iter().position(|(key, _)| matches!(key.value, Value::Merge)) else {
        return Ok(pairs);
    };
    let (merge, from) = &pairs[at];
    let own: HashMap<&str, (usize, &Node)> = pairs
        .iter()
        .enumerate()
        .filter_map(|(place, (key, value))| Some((key.text()?, (place, &**value))))
        .collect();
    let (mut all, mut brought) = (Vec::new(), HashSet::new());
    for (key, value) in maps(from)?.into_iter().flatten() {
        let Some(name) = key.text() else { continue };
        match own.get(name) {
            Some((place, _)) if *place < at => {
                let what = format!("{name:?} stands before `<<`, which brings another");
                return Err(merge.place.remark(what, "put `<<` first"));
            }
            Some((_, Node { value: Value::Map(_), place, .. })) if matches!(value.value, Value::Map(_)) => {
                let what =
                    format!("`<<` brings fields of {name:?} as well, and some readers put both together");
                return Err(place.remark(what, "take it out of what `<<` names"));
            }
            Some(_) => {}
            None if brought.insert(name) => all.push((Rc::clone(key), Rc::clone(value))),
            None => {}
        }
    }
    all.extend(pairs.iter().enumerate().filter(|(place, _)| *place != at).map(|(_, pair)| pair.clone()));
    Ok(all)
}

/// The fields of the map or of the maps that stand behind `<<`.
fn maps(from: &Node) -> Result<Vec<&[Pair]>, Remark> {
    let fields = |node: &Node| node.place.remark("`<<` takes over fields, and these are none", "name a map");
    match &from.value {
        Value::Map(pairs) => Ok(vec![pairs]),
        Value::List(items) => items
            .iter()
            .map(|item| match &item.value {
                Value::Map(pairs) => Ok(&pairs[..]),
                _ => Err(fields(item)),
            })
            .collect(),
        _ => Err(fields(from)),
    }
}

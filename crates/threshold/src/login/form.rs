//! What makes a request a login, and whose: for surfaces that see requests and not the application's code.

use std::fmt;

use serde::de::{Deserializer as _, MapAccess, Visitor};

use crate::policy::Policy;
use crate::route::{Matches, Routes};

/// The fields to look for where a policy names none.
const FIELDS: [&str; 3] = ["username", "email", "account"];

/// How a login looks on the wire.
#[derive(Clone, Debug)]
pub struct LoginForm {
    routes: Vec<usize>,
    fields: Vec<String>,
    require: Vec<(String, String)>,
    success: Option<Vec<u16>>,
}

/// What a body says of a login.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Named {
    /// A password is tried at this account.
    Account(String),
    /// No password is tried: only the address counts.
    Nobody,
    /// It cannot be told, and so it must not pass: the application might read more into it.
    Unclear(&'static str),
}

/// Fields with their values, in the order of the body.
type Fields = Vec<(String, String)>;

impl LoginForm {
    pub(crate) fn new(policy: &Policy, routes: &Routes) -> Option<Self> {
        let login = policy.login.as_ref()?;
        let named = login.route.as_ref()?;
        let fields = login.account_field.as_ref().map(|fields| fields.0.clone());
        Some(Self {
            routes: named.0.iter().filter_map(|route| routes.index_of(&route.value)).collect(),
            fields: fields.unwrap_or_else(|| FIELDS.map(str::to_owned).to_vec()),
            require: login
                .require
                .0
                .iter()
                .map(|(name, value)| (name.value.clone(), value.clone()))
                .collect(),
            success: login.success.as_ref().map(|success| success.value.clone()),
        })
    }

    pub(crate) fn is_for(&self, matches: &Matches) -> bool {
        self.routes.iter().any(|route| matches.contains(*route))
    }

    /// Whether an answer of `status` says that the login succeeded; none if it says nothing: the application failed.
    #[must_use]
    pub fn succeeded(&self, status: u16) -> Option<bool> {
        if status >= 500 {
            return None;
        }
        Some(match &self.success {
            Some(statuses) => statuses.contains(&status),
            None => status < 400,
        })
    }

    /// Whose login `body` is: a JSON object or a form, whatever it calls itself, since applications may not ask either.
    #[must_use]
    pub fn read(&self, body: &[u8]) -> Named {
        let is_json = body.trim_ascii_start().starts_with(b"{");
        let Some(fields) = (if is_json { json(body) } else { form(body) }) else {
            return Named::Unclear("the body is neither a form nor a JSON object");
        };
        let mut values = Vec::new();
        for (name, wanted) in &self.require {
            match value(&fields, name) {
                Ok(Some(value)) => values.push(value == wanted),
                Ok(None) => return Named::Unclear("a field that tells what kind of login it is is missing"),
                Err(twice) => return twice,
            }
        }
        if values.contains(&false) {
            return Named::Nobody;
        }
        for name in &self.fields {
            match value(&fields, name) {
                Ok(Some(account)) => return Named::Account(account.to_owned()),
                Ok(None) => {}
                Err(twice) => return twice,
            }
        }
        Named::Unclear("no field names the account")
    }
}

/// The value of the field called `name`. Of one that comes twice, some applications take the first and others the last.
fn value<'a>(fields: &'a Fields, name: &str) -> Result<Option<&'a str>, Named> {
    let mut values = fields.iter().filter(|(other, _)| other == name).map(|(_, value)| value.as_str());
    let first = values.next();
    match values.next() {
        Some(_) => Err(Named::Unclear("a field comes twice")),
        None => Ok(first.filter(|value| !value.trim().is_empty())),
    }
}

/// The fields of a JSON object that are texts or numbers.
fn json(body: &[u8]) -> Option<Fields> {
    struct Object;
    impl<'de> Visitor<'de> for Object {
        type Value = Fields;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
            let mut fields = Fields::new();
            while let Some(name) = map.next_key::<String>()? {
                match map.next_value::<serde_json::Value>()? {
                    serde_json::Value::String(text) => fields.push((name, text)),
                    serde_json::Value::Number(number) => fields.push((name, number.to_string())),
                    _ => fields.push((name, String::new())),
                }
            }
            Ok(fields)
        }
    }
    let mut reader = serde_json::Deserializer::from_slice(body);
    let fields = reader.deserialize_map(Object).ok()?;
    reader.end().ok().map(|()| fields)
}

/// The fields of a form as browsers send it.
fn form(body: &[u8]) -> Option<Fields> {
    let text = |bytes: &[u8]| String::from_utf8(decoded(bytes)).ok();
    let field = |pair: &[u8]| {
        let equals = pair.iter().position(|byte| *byte == b'=')?;
        Some((text(&pair[..equals])?, text(&pair[equals + 1..])?))
    };
    body.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty()).map(field).collect()
}

/// Without escapes: `+` is a space, `%41` is `A`, and what is no escape stays as it is.
fn decoded(text: &[u8]) -> Vec<u8> {
    let digit = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, behind @ ..] = rest {
        rest = behind;
        bytes.push(match (*first, digit(behind.first()), digit(behind.get(1))) {
            (b'%', Some(high), Some(low)) => {
                rest = &behind[2..];
                // Two digits of sixteen are one byte.
                (high * 16 + low) as u8
            }
            (b'+', ..) => b' ',
            (byte, ..) => byte,
        });
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form_of(require: &[(&str, &str)]) -> LoginForm {
        LoginForm {
            routes: vec![0],
            fields: vec!["username".to_owned(), "email".to_owned()],
            require: require.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            success: None,
        }
    }

    fn account(name: &str) -> Named {
        Named::Account(name.to_owned())
    }

    #[test]
    fn accounts_are_read_from_forms_and_json_whatever_they_call_themselves() {
        let form = form_of(&[]);
        assert_eq!(form.read(b"username=al%69ce+b&password=x"), account("alice b"));
        assert_eq!(form.read(b" {\"email\": \"a@b\", \"username\": \"\"}"), account("a@b"));
        assert_eq!(form.read(b"{\"username\": 7}"), account("7"));
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_unclear() {
        let form = form_of(&[]);
        for body in [
            &b"username=a&username=b"[..],
            b"{\"username\": \"a\", \"username\": \"b\"}",
            b"{\"username\": \"a\"} trailing",
            b"{\"username\": [\"a\"]}",
            b"password=x",
            b"--boundary\r\nContent-Disposition: form-data; name=\"username\"\r\n\r\na",
            b"username=%ff",
            b"",
        ] {
            assert!(matches!(form.read(body), Named::Unclear(_)), "{body:?}");
        }
    }

    #[test]
    fn other_grants_name_nobody() {
        let form = form_of(&[("grant_type", "password")]);
        assert_eq!(form.read(b"grant_type=password&username=a"), account("a"));
        assert_eq!(form.read(b"grant_type=refresh_token&refresh_token=x"), Named::Nobody);
        assert!(matches!(form.read(b"username=a"), Named::Unclear(_)));
    }

    #[test]
    fn statuses_tell_how_a_login_ended() {
        let form = form_of(&[]);
        assert_eq!(
            [200, 302, 401, 500].map(|status| form.succeeded(status)),
            [Some(true), Some(true), Some(false), None]
        );
        let form = LoginForm { success: Some(vec![302]), ..form };
        assert_eq!([200, 302, 500].map(|status| form.succeeded(status)), [Some(false), Some(true), None]);
    }
}

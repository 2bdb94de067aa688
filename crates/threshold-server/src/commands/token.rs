//! `threshold token`: who may use the admin API.

use serde_json::{Value, json};

use super::check;
use crate::Ended;
use crate::admin::tokens::{Kept, TokenFile};
use crate::cli::{Token, TokenCreate, TokenList, TokenPlace, TokenRevoke};
use crate::config::{self, PolicyFileError};
use crate::output::{Output, Style, harmless, harmless_json, table};

/// Does what is asked about tokens.
pub(crate) fn token(token: &Token, output: &mut Output) -> Ended {
    let place = match token {
        Token::Create(TokenCreate { place, .. })
        | Token::List(TokenList { place })
        | Token::Revoke(TokenRevoke { place, .. }) => place,
    };
    let done = match file(place) {
        Ok(file) => match token {
            Token::Create(asked) => create(asked, &file, output),
            Token::List(asked) => list(asked, &file, output),
            Token::Revoke(asked) => revoke(asked, &file, output),
        },
        Err(PolicyFileError::Broken(error)) => {
            check::broken(&error, output);
            return Ended::NotRun;
        }
        Err(PolicyFileError::Unreadable(what)) => Err(what),
    };
    done.unwrap_or_else(|what| {
        output.labelled(Style::Error, "error", &harmless(&what));
        Ended::NotRun
    })
}

fn file(place: &TokenPlace) -> Result<TokenFile, PolicyFileError> {
    config::data_dir(place.data_dir.as_deref(), place.config.as_deref()).map(|folder| TokenFile::new(&folder))
}

fn create(asked: &TokenCreate, file: &TokenFile, output: &mut Output) -> Result<Ended, String> {
    let token = file.create(&asked.name, asked.scope)?;
    let scope = asked.scope.name();
    match asked.place.json {
        true => print(&json!({ "name": asked.name, "scope": scope, "token": token }), output),
        false => {
            output.line(&token);
            let what = format!("{} may {scope} by this; it is shown this once, so keep it", asked.name);
            output.labelled(Style::Quiet, "note", &harmless(&what));
        }
    }
    Ok(Ended::Well)
}

fn list(asked: &TokenList, file: &TokenFile, output: &mut Output) -> Result<Ended, String> {
    let tokens = file.read()?;
    if asked.place.json {
        let document =
            |kept: &Kept| json!({ "name": kept.name, "scope": kept.scope.name(), "created": kept.created });
        print(&tokens.iter().map(document).collect(), output);
    } else if tokens.is_empty() {
        output.line(&harmless(&format!("{}: there are no tokens.", file.path().display())));
    } else {
        let row = |kept: &Kept| [kept.name.clone(), kept.scope.name().to_owned(), kept.created.clone()];
        table(["NAME", "SCOPE", "CREATED"], &tokens.iter().map(row).collect::<Vec<_>>(), output);
    }
    Ok(Ended::Well)
}

fn revoke(asked: &TokenRevoke, file: &TokenFile, output: &mut Output) -> Result<Ended, String> {
    let changed = file.revoke(&asked.name)?;
    match (asked.place.json, changed) {
        (true, _) => print(&json!({ "changed": changed, "name": asked.name }), output),
        (false, true) => output.line(&harmless(&format!("revoked the token of {}", asked.name))),
        (false, false) => {
            output.line(&harmless(&format!(
                "there is no token called {}; `threshold token list` lists them",
                asked.name
            )));
        }
    }
    Ok(if changed { Ended::Well } else { Ended::Unchanged })
}

fn print(document: &Value, output: &mut Output) {
    output.line(&harmless_json(&format!("{document:#}")));
}

//! Accounts: one spelling for what people type as their name.

use caseless::Caseless;
use unicode_normalization::UnicodeNormalization;

use super::MAX_ID_BYTES;

/// The one spelling of an account's name: without white space around it, compatibility forms replaced (NFKC),
/// case folded, and without characters that nobody sees. So `ＡＬＩＣＥ`, `Alice ` and `alice` are one account,
/// and an attacker cannot mint fresh budgets by spelling one name in many ways.
///
/// Nothing if nothing is left, or if what is left is longer than [`MAX_ID_BYTES`].
#[must_use]
pub fn fold_account(name: &str) -> Option<String> {
    let name = strip(name);
    if name.len() > MAX_ID_BYTES {
        return None;
    }
    // Folding can undo a normalisation and the other way round; after the second time nothing moves.
    let once = name.nfd().default_case_fold().nfkc().filter(|c| !is_ignorable(*c));
    let folded: String = once.default_case_fold().nfkc().collect();
    let folded = folded.trim();
    (!folded.is_empty() && folded.len() <= MAX_ID_BYTES).then(|| folded.to_owned())
}

/// Without white space around it, and without characters that nobody sees.
pub(crate) fn strip(name: &str) -> String {
    let seen: String = name.chars().filter(|c| !is_ignorable(*c)).collect();
    seen.trim().to_owned()
}

/// The characters that Unicode calls default ignorable: they change how text looks or breaks, never what it
/// says. The ranges are fixed; characters that Unicode adds to them are inside already.
fn is_ignorable(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
        | '\u{fff0}'..='\u{fff8}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}')
}

//! One account, however it is spelled.

use proptest::prelude::{any, proptest};
use proptest::{prop_assert, prop_assert_eq};
use threshold::identify::{MAX_ID_BYTES, fold_account};

#[track_caller]
fn same(spellings: &[&str]) {
    let folded: Vec<_> = spellings.iter().map(|name| fold_account(name).unwrap()).collect();
    assert!(folded.windows(2).all(|pair| pair[0] == pair[1]), "{folded:?}");
}

#[test]
fn spellings_of_one_name_are_one_account() {
    same(&[
        "alice",
        "Alice",
        "ALICE",
        " alice\t",
        "ａｌｉｃｅ",
        "ＡＬＩＣＥ",
        "ali\u{ad}ce",
        "alice\u{200b}",
        "\u{feff}alice",
    ]);
    same(&["strasse", "straße", "STRASSE", "STRAẞE"]);
    same(&["σίσυφος", "ΣΊΣΥΦΟΣ", "σίσυφοσ"]);
    same(&["é@example.com", "e\u{301}@EXAMPLE.com", "É@example.com"]);
    same(&["ﬁona", "FIONA", "fiona"]);
    same(&["k", "K", "\u{212a}"]);
    same(&["1", "①", "¹"]);
}

#[test]
fn different_names_stay_different() {
    for (one, other) in [("alice", "alicé"), ("a b", "ab"), ("ı", "i"), ("alice", "аlice")] {
        assert_ne!(fold_account(one), fold_account(other), "{one} {other}");
    }
}

#[test]
fn nothing_and_too_much_are_no_account() {
    for name in ["", " ", "\u{200b}", "\u{3000}\u{ad}"] {
        assert_eq!(fold_account(name), None, "{name:?}");
    }
    assert_eq!(fold_account(&"A".repeat(256)), Some("a".repeat(256)));
    assert_eq!(fold_account(&"a".repeat(257)), None);
    // One character of three bytes becomes a phrase of 33.
    assert_eq!(fold_account(&"ﷺ".repeat(20)), None);
}

proptest! {
    #[test]
    fn folding_again_changes_nothing(name in any::<String>()) {
        if let Some(folded) = fold_account(&name) {
            prop_assert!(folded.len() <= MAX_ID_BYTES);
            prop_assert_eq!(fold_account(&folded), Some(folded));
        }
    }

    #[test]
    fn case_never_matters(name in any::<String>()) {
        prop_assert_eq!(fold_account(&name.to_ascii_uppercase()), fold_account(&name.to_ascii_lowercase()));
    }
}

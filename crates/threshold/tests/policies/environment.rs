//! Values from the environment.

use threshold::policy::{Cost, Policy, PolicyError};

fn with(variables: &[(&str, &str)], text: &str) -> Result<Policy, PolicyError> {
    let variable = |name: &str| {
        let found = variables.iter().find(|(own, _)| *own == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    Policy::read("policy.toml", text, &variable)
}

fn rate(variables: &[(&str, &str)], written: &str) -> String {
    let text = format!("[[limit]]\nid = \"a\"\nlayer = \"user\"\nrate = \"{written}\"\n");
    let policy = with(variables, &text).unwrap();
    policy.limit[0].rate.as_ref().unwrap().value.to_string()
}

#[test]
fn a_variable_that_is_set_counts() {
    assert_eq!(rate(&[("RATE", "7/min")], "${RATE}"), "7/min");
    assert_eq!(rate(&[("RATE", "7/min")], "${RATE:-5/s}"), "7/min");
}

#[test]
fn the_default_counts_where_it_is_not_set_or_empty() {
    assert_eq!(rate(&[], "${RATE:-5/s}"), "5/s");
    assert_eq!(rate(&[("RATE", "")], "${RATE:-5/s}"), "5/s");
}

#[test]
fn a_part_of_a_value_may_come_from_it() {
    assert_eq!(rate(&[("COUNT", "12")], "${COUNT}/${UNIT:-hour}"), "12/hour");
}

#[test]
fn without_a_default_it_must_be_set() {
    let error = with(&[], "[store]\nsecret = \"${SECRET}\"\n").unwrap_err();
    assert_eq!(
        error.to_string(),
        "policy.toml:2:10: store.secret: the environment variable SECRET is not set; \
         set it, or give a default: \"${SECRET:-...}\""
    );
}

#[test]
fn numbers_choices_and_switches_come_from_it_too() {
    let text = "[store]\nnodes = \"${NODES:-3}\"\n\n[[limit]]\nid = \"a\"\nlayer = \"${LAYER:-user}\"\n\
                rate = \"9/s\"\ncost = \"${COST:-2}\"\nsilent = \"${SILENT:-true}\"\n";
    let policy = with(&[("NODES", "5")], text).unwrap();
    assert_eq!(policy.store.unwrap().nodes.unwrap().value, 5);
    assert!(policy.limit[0].silent);
    let Cost::Each(each) = policy.limit[0].cost.as_ref().unwrap().value else { panic!("no number") };
    assert_eq!(each.get(), 2);
    let error = with(&[("NODES", "many")], text).unwrap_err();
    assert_eq!(error.problems[0].field, "store.nodes");
}

#[test]
fn the_characters_themselves_are_written_with_two_dollars() {
    let policy = with(&[], "[store]\nsecret = \"$${0123456789abcdef}\"\n").unwrap();
    assert_eq!(policy.store.unwrap().secret.unwrap().value, "${0123456789abcdef}");
}

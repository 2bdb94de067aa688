//! Numbers that do less, or let through more, than they seem to.

use threshold_core::{Algorithm, AlgorithmKind, Rate, Span};

use super::super::describe::Size;
use super::super::{Cost, Enforce, cost};
use super::{Finding, Lint, View};

/// Blocks that are shorter than the wait their limit gives anyway.
pub(super) fn blocks(lint: &Lint<'_>) -> Vec<Finding> {
    lint.limits.iter().filter_map(short_block).collect()
}

fn short_block(view: &View<'_>) -> Option<Finding> {
    let block = view.limit.block_for.as_ref()?;
    let longest = view.sizes.iter().filter_map(|size| own_wait(view, size)).max()?;
    let what = format!(
        "who is over may have to wait {longest} by the limit itself, and {} adds nothing to that",
        block.value
    );
    let remedy = format!("use at least {longest}, or remove it");
    (block.value < longest).then(|| Finding::note(block, what, remedy).about([view.id()]))
}

/// The longest that the limit itself makes a request wait, if nothing else is charged meanwhile.
fn own_wait(view: &View<'_>, size: &Size<'_>) -> Option<Span> {
    match (&size.algorithm, cost(view.limit, size.rate)) {
        (Algorithm::TokenBucket(bucket), Cost::Each(each)) => {
            let (interval, per) = bucket.interval();
            let micros = (u128::from(each.get()) * u128::from(interval)).div_ceil(u128::from(per));
            u64::try_from(micros).ok().map(Span::from_micros)
        }
        // It depends on the bytes.
        (Algorithm::TokenBucket(_), Cost::Bytes) | (Algorithm::Concurrency(_), _) => None,
        _ => Some(size.algorithm.period()),
    }
}

/// Buckets whose burst nobody chose: in some period they let through nearly twice their count. One finding for all.
pub(super) fn buckets(lint: &Lint<'_>) -> Vec<Finding> {
    let unchosen = |view: &&View<'_>| {
        let plain = |size: &Size<'_>| size.rate.burst().is_none() && size.rate.count() > 1;
        view.kind == AlgorithmKind::TokenBucket
            && view.limit.algorithm.is_none()
            && view.limit.enforce != Enforce::Observe
            && view.sizes.iter().any(plain)
    };
    let views: Vec<&View<'_>> = lint.limits.iter().filter(unchosen).collect();
    let Some(first) = views.first() else { return Vec::new() };
    let Some(size) = first.sizes.first() else { return Vec::new() };
    let (rate, period) = (size.rate.value, size.algorithm.period());
    let most = size.algorithm.guarantee().most_in(period);
    let unit = size.rate.unit();
    let most = Rate::new(most, Span::SECOND).map_or(most.to_string(), |most| {
        let text = most.counting(unit).to_string();
        text.strip_suffix("/s").unwrap_or(&text).to_owned()
    });
    let others = match views.len() {
        1 => String::new(),
        2 => "; likewise 1 other limit".to_owned(),
        all => format!("; likewise {} other limits", all - 1),
    };
    let what = format!(
        "{rate} is a bucket of {} that refills: up to {most} pass in some {period}{others}",
        rate.to_string().split(['/', ' ']).next().unwrap_or_default()
    );
    let remedy = format!("nothing, if that is meant; to hold it to its count, {}", stricter(&rate));
    let place = first.limit.category.is_none().then_some(size.rate);
    let finding = match place {
        Some(rate) => Finding::note(rate, what, remedy),
        None => Finding::note(&first.limit.id, what, remedy),
    };
    vec![finding.about(views.iter().map(|view| view.id()))]
}

/// How to write the rate so that no period sees more than its count.
fn stricter(rate: &Rate) -> String {
    let burst = (rate.count() / 10).max(1);
    let strict =
        Rate::new(rate.count() - burst + 1, rate.period()).and_then(|strict| strict.with_burst(burst));
    let strict = strict.ok().map(|strict| strict.counting(rate.unit()));
    let holds = |strict: &Rate| {
        let bucket = Algorithm::token_bucket(strict).ok();
        bucket.is_some_and(|bucket| bucket.guarantee().most_in(rate.period()) <= rate.count())
    };
    let log = (rate.count() <= 10_000).then(|| "`algorithm = \"sliding-log\"`".to_owned());
    let bucket = strict.filter(holds).map(|strict| format!("`rate = \"{strict}\"`"));
    let ways: Vec<String> = [log, bucket].into_iter().flatten().collect();
    match ways.is_empty() {
        true => "give it a smaller burst".to_owned(),
        false => format!("write {}", ways.join(" or ")),
    }
}

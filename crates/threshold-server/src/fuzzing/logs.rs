//! Access logs, of whatever format their lines seem to be.

use std::io::Cursor;

use threshold::Timestamp;
use threshold_foresight::logs::{Format, Logs, Options, Source};
use threshold_foresight::recommend::{self, Recommender};

/// Reads `bytes` as a log: the first says which format it is taken for, or that its lines say so. Times never go back, nothing
/// is lost uncounted, and of strict reading the same requests come until the first line that is none.
///
/// # Panics
///
/// If one of these does not hold.
pub fn logs(bytes: &[u8]) {
    let Some((first, log)) = bytes.split_first() else { return };
    let format = Format::ALL.get(usize::from(*first)).copied();
    let lenient = read(log, format, false);
    let strict = read(log, format, true);
    if let (Ok(all), Ok(some)) = (&lenient, &strict) {
        assert_eq!(all, some);
    }
    // What one way refuses to begin with the other does as well.
    assert!(lenient.is_ok() || strict.is_err());
}

fn read(log: &[u8], format: Option<Format>, strict: bool) -> Result<u64, String> {
    let read = Box::new(Cursor::new(log.to_vec()));
    let source = Source { name: "log".to_owned(), bytes: Some(log.len() as u64), read };
    let options = Options { format, strict, ..Options::default() };
    let mut logs = Logs::open(vec![source], options).map_err(|error| error.to_string())?;
    let mut recommender = Recommender::new(recommend::Options::default());
    let mut latest = Timestamp::default();
    while let Some(request) = logs.next().map_err(|error| error.to_string())? {
        assert!(request.at >= latest && request.at <= Timestamp::MAX);
        latest = request.at;
        recommender.see(&request);
    }
    let counts = logs.counts();
    let told =
        counts.requests + counts.empty + counts.comments + counts.out_of_time.count + counts.all_broken();
    assert_eq!(told, counts.lines, "{counts:?}");
    let recommendation = recommender.finish();
    assert_eq!(recommendation.requests, counts.requests);
    assert!(!recommendation.policy_fragment().is_empty());
    Ok(counts.requests)
}

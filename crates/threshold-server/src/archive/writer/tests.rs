//! What is written when, and what is left when it cannot be.

use super::*;
use crate::archive::{Reading, in_parts};
use std::path::Path;
use threshold::policy::Layer;
use threshold::usage::{Limit, Met, Mets, Noted, Whose};
use threshold::{SubjectId, SubjectKind};
use threshold_testkit::folder::Folder as Scratch;

fn writer(scratch: &Scratch, room: usize) -> Writer {
    let settings = Settings {
        folder: scratch.path().join("archive"),
        bucket: None,
        every: Span::MINUTE,
        keep: Span::DAY,
        breaker: BreakerSettings::default(),
    };
    Folder::new(settings.folder.clone()).prepare().unwrap();
    let usage = Arc::new(Usage::new(room));
    Writer::new(settings, &usage, (&Arc::new(Log::new(false)), &Arc::new(Health::default())))
}

/// Counts one request of `subject` at `at`.
fn count_one(writer: &Writer, subject: SubjectId, at: Timestamp) {
    let (limit, period) = (Limit::new("api", Some(Layer::User), Span::MINUTE), Span::MINUTE);
    let (whose, met) = (Whose::Ids(&[subject]), &Mets::from_iter(&[Met { limit, who: 0, period, cost: 1 }]));
    writer.usage.count(&Noted { at, allowed: true, times: 1, whole: None, whose, met });
}

/// Counts one request of each of so many clients, the first of which is called `from`.
fn count(writer: &Writer, from: u64, clients: u64) {
    for client in from..from + clients {
        let hash = [client.wrapping_mul(0x9e37_79b9_7f4a_7c15), client.wrapping_mul(0xd134_2543_de82_ef95)];
        let subject = SubjectId::from_raw(SubjectKind::Address, hash);
        count_one(writer, subject, Timestamp::from_micros(1_700_000_000_000_000));
    }
}

/// How many requests the archive has, and how many it says are missing.
fn archived(writer: &Writer) -> (u64, u64) {
    let reading = Reading::new(writer.folder.clone(), Timestamp::default());
    let read = |all: &mut (u64, u64), part| {
        let add = |entry: crate::archive::Entry| {
            all.0 += entry.requests;
            Ok(())
        };
        all.1 = reading.each(part, |_| true, add)?.dropped;
        Ok(())
    };
    in_parts(usize::MAX, read).unwrap()
}

#[test]
fn files_come_in_time_or_early_when_there_is_much_and_never_without_end() {
    let scratch = Scratch::new();
    let writer = writer(&scratch, 3_200);
    let seconds = Span::from_secs;
    assert!(!writer.is_due(seconds(59)) && writer.is_due(seconds(60)));
    count(&writer, 0, 2_000);
    writer.usage.gather();
    assert!(writer.usage.len() >= 1_600);
    assert!(!writer.is_due(seconds(5)) && writer.is_due(seconds(6)));
}

#[test]
fn rows_wait_while_the_disk_fails_up_to_a_bound_and_what_is_lost_is_told() {
    let scratch = Scratch::new();
    let mut writer = writer(&scratch, 1 << 14);
    writer.most_waiting = 100;
    let unfinished = writer.folder.path().join("unfinished");
    std::fs::remove_dir(&unfinished).unwrap();
    std::fs::write(&unfinished, "").unwrap();
    for round in 0..3 {
        count(&writer, round * 60, 60);
        writer.gather();
        writer.write(false);
    }
    assert_eq!((writer.waiting.len(), writer.dropped), (100, 80));
    std::fs::remove_file(&unfinished).unwrap();
    writer.write(true);
    assert_eq!((archived(&writer), writer.waiting.len()), ((100, 80), 0));
    count(&writer, 0, 5);
    writer.gather();
    writer.write(false);
    assert_eq!(archived(&writer), (105, 80), "told once");
}

#[test]
fn a_flood_of_new_clients_is_archived_or_dropped_and_nothing_else() {
    const THREADS: u64 = 4;
    const EACH: u64 = 50_000;
    let scratch = Scratch::new();
    let mut writer = writer(&scratch, 1 << 10);
    let counting = Counting::start(&writer.usage).unwrap();
    std::thread::scope(|scope| {
        let writer = &writer;
        for thread in 0..THREADS {
            scope.spawn(move || count(writer, thread * EACH, EACH));
        }
    });
    counting.stop();
    assert!(writer.usage.len() <= 1 << 10);
    writer.gather();
    writer.write(true);
    let (kept, dropped) = archived(&writer);
    assert_eq!((kept, kept + dropped), (1 << 10, THREADS * EACH));
    assert_eq!(writer.health.readings(writer.clock.now()).archive_dropped, dropped);
}

#[test]
fn rows_are_in_the_folder_of_the_hour_in_which_their_window_began() {
    let scratch = Scratch::new();
    let mut writer = writer(&scratch, 100);
    let subject = SubjectId::from_raw(SubjectKind::Address, [1, 2]);
    for at in [1_699_999_199, 1_699_999_200, 1_700_006_399] {
        count_one(&writer, subject, Timestamp::from_micros(at * 1_000_000));
    }
    writer.gather();
    writer.write(false);
    let hours = writer.folder.hours(Timestamp::default()).unwrap();
    let names: Vec<_> = hours.iter().map(|hour| hour.strip_prefix(writer.folder.path()).unwrap()).collect();
    let wanted = ["2023-11-14/21", "2023-11-14/22", "2023-11-14/23"];
    assert_eq!(names, wanted.map(|hour| Path::new("analytics/rate-limits").join(hour)));
    let later = writer.folder.hours(Timestamp::from_micros(1_700_006_400_000_000)).unwrap();
    assert_eq!(later, hours[2..], "only those that may have something after that");
}

//! A Parquet file with fewer rows, whatever columns it has: usage and events alike.

use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{Compression, Type};
use parquet::column::reader::get_typed_column_reader;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader as _, RowGroupReader, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};

use super::columns::DROPPED;
use super::erase::Named;

/// A file without somebody's rows.
pub(super) struct Rewritten {
    /// The file; none if it has nothing more to say.
    pub(super) bytes: Option<Vec<u8>>,
    /// How many rows of usage it has less, and how many events.
    pub(super) usage: usize,
    pub(super) events: usize,
}

/// One column: values, and which rows have one where not all do.
enum Column {
    Numbers(Values<Int64Type>),
    Texts(Values<ByteArrayType>),
}

struct Values<T: DataType> {
    there: Vec<T::T>,
    levels: Option<Vec<i16>>,
}

/// The file of `bytes` without the rows that are about `named`; none if it has no such rows.
pub(super) fn without(bytes: Bytes, named: &Named) -> Result<Option<Rewritten>> {
    let file = SerializedFileReader::new(bytes)?;
    let schema = file.metadata().file_metadata().schema_descr_ptr();
    let place = |name: &str| schema.columns().iter().position(|column| column.name() == name);
    let Some(subject) = place("subject") else {
        return Err(ParquetError::General("it has other columns than the archive's".to_owned()));
    };
    let events = place("event").zip(place("detail"));
    let (mut groups, mut gone, mut left) = (Vec::new(), 0, 0);
    for number in 0..file.num_row_groups() {
        let group = file.get_row_group(number)?;
        let columns: Result<Vec<Column>> =
            (0..schema.num_columns()).map(|place| Column::read(&*group, place)).collect();
        let columns = columns?;
        let meant = |row: usize| {
            let text =
                |place: usize| columns.get(place).and_then(|column| column.text(row)).unwrap_or_default();
            let about = |(event, detail)| named.is_in(text(event), text(detail));
            events.map_or_else(|| named.is_subject(text(subject)), about)
        };
        let rows = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
        let keep: Vec<bool> = (0..rows).map(|row| !meant(row)).collect();
        let kept = keep.iter().filter(|keep| **keep).count();
        (gone, left) = (gone + rows - kept, left + kept);
        groups.push(columns.into_iter().map(|column| column.only(&keep)).collect::<Vec<_>>());
    }
    if gone == 0 {
        return Ok(None);
    }
    let (usage, of_events) = if events.is_some() { (0, gone) } else { (gone, 0) };
    // What found no room before it was written is told nowhere else.
    let bytes = match left == 0 && dropped(&file) == 0 {
        true => None,
        false => Some(write(&file, &groups)?),
    };
    Ok(Some(Rewritten { bytes, usage, events: of_events }))
}

fn dropped(file: &SerializedFileReader<Bytes>) -> u64 {
    let pairs = file.metadata().file_metadata().key_value_metadata().into_iter().flatten();
    let told = pairs.filter(|pair| pair.key == DROPPED).find_map(|pair| pair.value.as_ref()?.parse().ok());
    told.unwrap_or(0)
}

fn write(from: &SerializedFileReader<Bytes>, groups: &[Vec<Column>]) -> Result<Vec<u8>> {
    let metadata = from.metadata().file_metadata();
    let schema = metadata.schema_descr().root_schema_ptr();
    let properties = WriterProperties::builder().set_compression(Compression::UNCOMPRESSED).build();
    let mut file = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties))?;
    for pair in metadata.key_value_metadata().into_iter().flatten() {
        file.append_key_value_metadata(pair.clone());
    }
    for columns in groups {
        let mut group = file.next_row_group()?;
        columns.iter().try_for_each(|column| column.write(&mut group))?;
        group.close()?;
    }
    file.into_inner()
}

impl Column {
    fn read(group: &(dyn RowGroupReader + '_), place: usize) -> Result<Self> {
        match group.metadata().column(place).column_type() {
            Type::INT64 => Values::read(group, place).map(Self::Numbers),
            Type::BYTE_ARRAY => Values::read(group, place).map(Self::Texts),
            other => {
                Err(ParquetError::General(format!("it has a column of {other}, and the archive has none")))
            }
        }
    }

    fn text(&self, row: usize) -> Option<&str> {
        match self {
            Self::Numbers(_) => None,
            Self::Texts(texts) => texts.get(row).and_then(|text: &ByteArray| text.as_utf8().ok()),
        }
    }

    fn only(self, keep: &[bool]) -> Self {
        match self {
            Self::Numbers(numbers) => Self::Numbers(numbers.only(keep)),
            Self::Texts(texts) => Self::Texts(texts.only(keep)),
        }
    }

    fn write(&self, group: &mut SerializedRowGroupWriter<'_, Vec<u8>>) -> Result<()> {
        match self {
            Self::Numbers(numbers) => numbers.write(group),
            Self::Texts(texts) => texts.write(group),
        }
    }
}

impl<T: DataType> Values<T> {
    fn read(group: &(dyn RowGroupReader + '_), place: usize) -> Result<Self> {
        let rows = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
        let optional = group.metadata().column(place).column_descr().max_def_level() > 0;
        let (mut there, mut levels) = (Vec::with_capacity(rows), Vec::new());
        let mut reader = get_typed_column_reader::<T>(group.get_column_reader(place)?);
        let (read, ..) = reader.read_records(rows, optional.then_some(&mut levels), None, &mut there)?;
        if read != rows {
            return Err(ParquetError::General("its columns are not of one length".to_owned()));
        }
        Ok(Self { there, levels: optional.then_some(levels) })
    }

    /// What a row has.
    fn get(&self, row: usize) -> Option<&T::T> {
        match &self.levels {
            None => self.there.get(row),
            Some(levels) if *levels.get(row)? == 0 => None,
            // Few files have somebody's rows, and those few are short.
            Some(levels) => self.there.get(levels.iter().take(row).filter(|level| **level > 0).count()),
        }
    }

    fn only(self, keep: &[bool]) -> Self {
        let Self { there, levels } = self;
        let mut there = there.into_iter();
        let mut kept = Vec::new();
        for (row, keep) in keep.iter().enumerate() {
            let has = levels.as_ref().is_none_or(|levels| levels.get(row).is_some_and(|level| *level > 0));
            kept.extend(there.by_ref().take(usize::from(has)).filter(|_| *keep));
        }
        let levels = levels.map(|levels| {
            levels.into_iter().zip(keep).filter(|(_, keep)| **keep).map(|(level, _)| level).collect()
        });
        Self { there: kept, levels }
    }

    fn write(&self, group: &mut SerializedRowGroupWriter<'_, Vec<u8>>) -> Result<()> {
        let missing = || ParquetError::General("there are more columns than the schema has".to_owned());
        let mut column = group.next_column()?.ok_or_else(missing)?;
        column.typed::<T>().write_batch(&self.there, self.levels.as_deref(), None)?;
        column.close()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::{columns, event_columns, events::Told};
    use std::collections::HashSet;
    use threshold::usage::Row;
    use threshold::{Span, SubjectId, SubjectKind, Timestamp};

    fn subject(number: u64) -> SubjectId {
        SubjectId::from_raw(SubjectKind::Address, [number, !number])
    }

    fn named(number: u64) -> Named {
        Named { subjects: vec![subject(number).to_string()], shown: vec!["192.0.2.7".to_owned()] }
    }

    fn usage(rows: u64) -> Vec<Row> {
        let row = |number: u64| Row {
            window_start: Timestamp::from_micros(number),
            window: Span::MINUTE,
            limit: "api",
            layer: None,
            subject: subject(number % 3),
            requests: number,
            refused: 1,
            cost: number,
            first: Timestamp::from_micros(number),
            last: Timestamp::from_micros(number),
        };
        (0..rows).map(row).collect()
    }

    #[test]
    fn all_other_rows_stay_as_they_were() {
        let all = usage(10);
        let rewritten = without(Bytes::from(columns::encode(&all, 7).unwrap()), &named(1)).unwrap().unwrap();
        let others: Vec<Row> = all.into_iter().filter(|row| row.subject != subject(1)).collect();
        assert_eq!((rewritten.usage, rewritten.events), (3, 0));
        assert_eq!(rewritten.bytes.unwrap(), columns::encode(&others, 7).unwrap(), "as if it had never been");
    }

    #[test]
    fn nothing_is_written_for_who_is_not_there_and_nothing_is_left_of_who_was_alone() {
        let one = |dropped| Bytes::from(columns::encode(&usage(1), dropped).unwrap());
        assert!(without(one(0), &named(1)).unwrap().is_none());
        assert!(without(one(0), &named(0)).unwrap().unwrap().bytes.is_none());
        let told = without(one(5), &named(0)).unwrap().unwrap().bytes.unwrap();
        let file = threshold_testkit::folder::Folder::new();
        std::fs::write(file.path().join("rows"), told).unwrap();
        let file = std::fs::File::open(file.path().join("rows")).unwrap();
        assert_eq!(
            columns::decode(file, &mut HashSet::new()).unwrap(),
            (Vec::new(), 5),
            "what was lost is told"
        );
    }

    #[test]
    fn events_go_that_name_somebody_anywhere_but_not_that_it_was_erased() {
        let told = |event: &str, subject: Option<String>, detail: String| Told {
            at: Timestamp::default(),
            event: event.to_owned(),
            subject,
            limit: None,
            kind: Some("ban".to_owned()),
            layer: None,
            detail,
        };
        let id = subject(1).to_string();
        let all = [
            told("sanction_imposed", Some(id.clone()), format!("{{\"subject\":\"{id}\"}}")),
            told("setting_changed", None, format!("{{\"what\":\"{id} set to gold\"}}")),
            told("auth_ip_rate_limit", Some("192.0.2.7".to_owned()), "{\"ip\":\"192.0.2.7\"}".to_owned()),
            told("auth_ip_rate_limit", Some("192.0.2.70".to_owned()), "{\"ip\":\"192.0.2.70\"}".to_owned()),
            told("ledger_failed", None, "{}".to_owned()),
            told("subject_erased", Some(id.clone()), format!("{{\"subject\":\"{id}\"}}")),
        ];
        let rewritten =
            without(Bytes::from(event_columns::encode(&all, 0).unwrap()), &named(1)).unwrap().unwrap();
        assert_eq!((rewritten.usage, rewritten.events), (0, 3));
        assert_eq!(rewritten.bytes.unwrap(), event_columns::encode(&all[3..], 0).unwrap());
    }

    #[test]
    fn what_is_no_file_of_the_archive_is_an_error() {
        let whole = columns::encode(&usage(3), 0).unwrap();
        for length in 0..whole.len() {
            assert!(without(Bytes::from(whole[..length].to_vec()), &named(0)).is_err(), "{length}");
        }
    }
}

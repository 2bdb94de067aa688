//! Rows as Parquet, and back.

use std::collections::HashSet;
use std::fs::File;
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::column::reader::get_typed_column_reader;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader as _, RowGroupReader, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use threshold::usage::Row;
use threshold::{Span, SubjectId, Timestamp};

/// The columns. Times are instants of UTC in microseconds, as everywhere in this project.
const SCHEMA: &str = "
message usage {
    REQUIRED INT64 window_start (TIMESTAMP(MICROS,true));
    REQUIRED INT64 window_micros;
    REQUIRED BYTE_ARRAY limit_id (UTF8);
    REQUIRED BYTE_ARRAY subject (UTF8);
    REQUIRED INT64 requests;
    REQUIRED INT64 refused;
    REQUIRED INT64 cost;
    REQUIRED INT64 first_request (TIMESTAMP(MICROS,true));
    REQUIRED INT64 last_request (TIMESTAMP(MICROS,true));
    OPTIONAL BYTE_ARRAY layer (UTF8);
}";

/// How many of the columns the first archives had: those have no layer.
const FIRST_COLUMNS: usize = 9;

/// What the file says beside its rows: how many requests found no room before it was written.
pub(super) const DROPPED: &str = "threshold.dropped";

/// A row that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) window_start: Timestamp,
    pub(crate) window: Span,
    pub(crate) limit: Arc<str>,
    /// None for whole requests, and in files of the first archives.
    pub(crate) layer: Option<Arc<str>>,
    pub(crate) subject: SubjectId,
    pub(crate) requests: u64,
    pub(crate) refused: u64,
    pub(crate) first: Timestamp,
    pub(crate) last: Timestamp,
}

/// The bytes of a file with `rows`, before which `dropped` requests found no room.
pub(super) fn encode(rows: &[Row], dropped: u64) -> Result<Vec<u8>> {
    let schema = Arc::new(parse_message_type(SCHEMA)?);
    let properties = WriterProperties::builder().set_compression(Compression::UNCOMPRESSED).build();
    let mut file = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties))?;
    file.append_key_value_metadata(KeyValue::new(DROPPED.to_owned(), dropped.to_string()));
    let mut group = file.next_row_group()?;
    first_columns(&mut group, rows)?;
    layers(&mut group, rows)?;
    group.close()?;
    file.into_inner()
}

/// Those that the first archives had as well.
fn first_columns(group: &mut SerializedRowGroupWriter<'_, Vec<u8>>, rows: &[Row]) -> Result<()> {
    let time = |at: Timestamp| whole(at.as_micros());
    numbers(group, rows.iter().map(|row| time(row.window_start)))?;
    numbers(group, rows.iter().map(|row| whole(row.window.as_micros())))?;
    texts(group, rows.iter().map(|row| ByteArray::from(row.limit)))?;
    texts(group, rows.iter().map(|row| ByteArray::from(row.subject.to_string().into_bytes())))?;
    numbers(group, rows.iter().map(|row| whole(row.requests)))?;
    numbers(group, rows.iter().map(|row| whole(row.refused)))?;
    numbers(group, rows.iter().map(|row| whole(row.cost)))?;
    numbers(group, rows.iter().map(|row| time(row.first)))?;
    numbers(group, rows.iter().map(|row| time(row.last)))
}

/// The rows of a file, and how many requests found no room before it was written.
pub(super) fn decode(file: File, names: &mut HashSet<Arc<str>>) -> Result<(Vec<Entry>, u64)> {
    let file = SerializedFileReader::new(file)?;
    let metadata = file.metadata().file_metadata();
    let wanted = parse_message_type(SCHEMA)?;
    let called = |schema: &parquet::schema::types::Type| -> Vec<String> {
        schema.get_fields().iter().map(|field| field.name().to_owned()).collect()
    };
    let (has, wanted) = (called(metadata.schema_descr().root_schema()), called(&wanted));
    if has != wanted && has != wanted[..FIRST_COLUMNS] {
        return Err(ParquetError::General("it has other columns than the archive's".to_owned()));
    }
    let pairs = metadata.key_value_metadata().into_iter().flatten();
    let dropped = pairs.filter(|pair| pair.key == DROPPED).find_map(|pair| pair.value.as_ref()?.parse().ok());
    let mut entries = Vec::new();
    for place in 0..file.num_row_groups() {
        read_group(&*file.get_row_group(place)?, names, &mut entries)?;
    }
    Ok((entries, dropped.unwrap_or(0)))
}

fn read_group(
    group: &(dyn RowGroupReader + '_),
    names: &mut HashSet<Arc<str>>,
    entries: &mut Vec<Entry>,
) -> Result<()> {
    let number = |place: usize| -> Result<Vec<u64>> {
        let read = values::<Int64Type>(group, place)?;
        Ok(read.into_iter().map(|value| u64::try_from(value).unwrap_or(0)).collect())
    };
    let (starts, windows, requests) = (number(0)?, number(1)?, number(4)?);
    let (refused, firsts, lasts) = (number(5)?, number(7)?, number(8)?);
    let (limits, subjects) = (values::<ByteArrayType>(group, 2)?, values::<ByteArrayType>(group, 3)?);
    let layers = read_layers(group, names)?;
    let rows = [starts.len(), windows.len(), requests.len(), refused.len(), firsts.len(), lasts.len()];
    if rows.iter().chain([&limits.len(), &subjects.len(), &layers.len()]).any(|rows| *rows != starts.len()) {
        return Err(ParquetError::General("its columns are not of one length".to_owned()));
    }
    for (place, layer) in layers.into_iter().enumerate() {
        let subject = text(&subjects[place])?;
        let subject: SubjectId =
            subject.parse().map_err(|error| ParquetError::General(format!("{error}")))?;
        entries.push(Entry {
            window_start: Timestamp::from_micros(starts[place]),
            window: Span::from_micros(windows[place]),
            limit: kept(text(&limits[place])?, names),
            layer,
            subject,
            requests: requests[place],
            refused: refused[place],
            first: Timestamp::from_micros(firsts[place]),
            last: Timestamp::from_micros(lasts[place]),
        });
    }
    Ok(())
}

/// The layer of each row; none where the file has no such column.
fn read_layers(
    group: &(dyn RowGroupReader + '_),
    names: &mut HashSet<Arc<str>>,
) -> Result<Vec<Option<Arc<str>>>> {
    let rows = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
    if group.num_columns() <= FIRST_COLUMNS {
        return Ok(vec![None; rows]);
    }
    let (mut there, mut values) = (Vec::with_capacity(rows), Vec::with_capacity(rows));
    let mut reader = get_typed_column_reader::<ByteArrayType>(group.get_column_reader(FIRST_COLUMNS)?);
    reader.read_records(rows, Some(&mut there), None, &mut values)?;
    let mut values = values.iter();
    let mut next = |there: &i16| match there {
        0 => Ok(None),
        _ => values.next().map(|value| Ok(kept(text(value)?, names))).transpose(),
    };
    there.iter().map(&mut next).collect()
}

/// There are few limits and many rows: each name is kept once.
fn kept(name: &str, names: &mut HashSet<Arc<str>>) -> Arc<str> {
    if let Some(known) = names.get(name) {
        return Arc::clone(known);
    }
    let name: Arc<str> = name.into();
    names.insert(Arc::clone(&name));
    name
}

fn text(bytes: &ByteArray) -> Result<&str> {
    bytes.as_utf8()
}

fn values<T: DataType>(group: &(dyn RowGroupReader + '_), place: usize) -> Result<Vec<T::T>> {
    let rows = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
    let mut values = Vec::with_capacity(rows);
    let mut reader = get_typed_column_reader::<T>(group.get_column_reader(place)?);
    reader.read_records(rows, None, None, &mut values)?;
    Ok(values)
}

fn numbers(
    group: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
    values: impl Iterator<Item = i64>,
) -> Result<()> {
    write::<Int64Type>(group, &values.collect::<Vec<_>>())
}

fn texts(
    group: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
    values: impl Iterator<Item = ByteArray>,
) -> Result<()> {
    write::<ByteArrayType>(group, &values.collect::<Vec<_>>())
}

/// A layer for each row of a limit.
fn layers(group: &mut SerializedRowGroupWriter<'_, Vec<u8>>, rows: &[Row]) -> Result<()> {
    let there: Vec<i16> = rows.iter().map(|row| i16::from(row.layer.is_some())).collect();
    let named = rows.iter().filter_map(|row| row.layer);
    let values: Vec<ByteArray> = named.map(|layer| ByteArray::from(layer.word())).collect();
    let mut column = group.next_column()?.ok_or_else(too_many)?;
    column.typed::<ByteArrayType>().write_batch(&values, Some(&there), None)?;
    column.close()
}

fn too_many() -> ParquetError {
    ParquetError::General("there are more columns than the schema has".to_owned())
}

fn write<T: DataType>(group: &mut SerializedRowGroupWriter<'_, Vec<u8>>, values: &[T::T]) -> Result<()> {
    let mut column = group.next_column()?.ok_or_else(too_many)?;
    column.typed::<T>().write_batch(values, None, None)?;
    column.close()
}

/// Parquet's numbers have a sign; ours stay far below where that matters.
pub(super) fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use threshold::SubjectKind;
    use threshold::policy::Layer;

    fn rows(many: u64) -> Vec<Row> {
        let row = |number: u64| Row {
            window_start: Timestamp::from_micros(1_700_000_000_000_000 + number),
            window: Span::MINUTE,
            limit: if number.is_multiple_of(2) { "uploads" } else { "*" },
            layer: number.is_multiple_of(2).then_some(Layer::Endpoint),
            subject: SubjectId::from_raw(SubjectKind::Address, [number, !number]),
            requests: number,
            refused: number / 2,
            cost: u64::MAX,
            first: Timestamp::from_micros(number),
            last: Timestamp::MAX,
        };
        (0..many).map(row).collect()
    }

    fn file(bytes: &[u8]) -> File {
        let folder = threshold_testkit::folder::Folder::new();
        let path = folder.path().join("rows.parquet");
        File::create(&path).unwrap().write_all(bytes).unwrap();
        File::open(path).unwrap()
    }

    #[test]
    fn rows_are_read_as_they_were_written() {
        for many in [0, 1, 10_000] {
            let rows = rows(many);
            let mut names = HashSet::new();
            let (entries, dropped) = decode(file(&encode(&rows, 7).unwrap()), &mut names).unwrap();
            assert_eq!((entries.len(), dropped), (rows.len(), 7));
            assert!(names.len() <= 3, "each name is kept once");
            for (row, entry) in rows.iter().zip(&entries) {
                assert_eq!(
                    (row.window_start, row.window, row.limit, row.layer.map(Layer::word)),
                    (entry.window_start, entry.window, &*entry.limit, entry.layer.as_deref())
                );
                assert_eq!(
                    (row.subject, row.requests, row.refused),
                    (entry.subject, entry.requests, entry.refused)
                );
                assert_eq!((row.first, row.last), (entry.first, entry.last));
            }
        }
    }

    /// As the first archives were written: without layers.
    fn first_archive(rows: &[Row]) -> Vec<u8> {
        let schema = SCHEMA.replace("    OPTIONAL BYTE_ARRAY layer (UTF8);\n", "");
        let schema = Arc::new(parse_message_type(&schema).unwrap());
        let mut file = SerializedFileWriter::new(Vec::new(), schema, Arc::default()).unwrap();
        let mut group = file.next_row_group().unwrap();
        first_columns(&mut group, rows).unwrap();
        group.close().unwrap();
        file.into_inner().unwrap()
    }

    #[test]
    fn files_without_layers_are_still_read() {
        let rows = rows(10);
        let (entries, _) = decode(file(&first_archive(&rows)), &mut HashSet::new()).unwrap();
        let requests: Vec<u64> = entries.iter().map(|entry| entry.requests).collect();
        assert_eq!(requests, (0..10).collect::<Vec<_>>());
        assert!(entries.iter().all(|entry| entry.layer.is_none()));
    }

    #[test]
    fn a_file_that_is_cut_off_anywhere_is_an_error_and_nothing_else() {
        let whole = encode(&rows(3), 0).unwrap();
        for length in 0..whole.len() {
            assert!(decode(file(&whole[..length]), &mut HashSet::new()).is_err(), "{length}");
        }
    }
}

//! Events as Parquet.

use std::sync::Arc;

use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

use super::columns::{DROPPED, whole};
use super::events::Told;

const SCHEMA: &str = "
message events {
    REQUIRED INT64 at (TIMESTAMP(MICROS,true));
    REQUIRED BYTE_ARRAY event (UTF8);
    OPTIONAL BYTE_ARRAY subject (UTF8);
    OPTIONAL BYTE_ARRAY limit_id (UTF8);
    OPTIONAL BYTE_ARRAY kind (UTF8);
    OPTIONAL BYTE_ARRAY layer (UTF8);
    REQUIRED BYTE_ARRAY detail (JSON);
}";

/// The bytes of a file with `told`, before which `dropped` events found no room.
pub(super) fn encode(told: &[Told], dropped: u64) -> Result<Vec<u8>> {
    let schema = Arc::new(parse_message_type(SCHEMA)?);
    let properties = WriterProperties::builder().set_compression(Compression::UNCOMPRESSED).build();
    let mut file = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties))?;
    file.append_key_value_metadata(KeyValue::new(DROPPED.to_owned(), dropped.to_string()));
    let mut group = file.next_row_group()?;
    let times: Vec<i64> = told.iter().map(|told| whole(told.at.as_micros())).collect();
    let mut column = group.next_column()?.ok_or_else(missing)?;
    column.typed::<Int64Type>().write_batch(&times, None, None)?;
    column.close()?;
    texts(&mut group, told.iter().map(|told| told.event.as_str()))?;
    optional(&mut group, told.iter().map(|told| told.subject.as_deref()))?;
    optional(&mut group, told.iter().map(|told| told.limit.as_deref()))?;
    optional(&mut group, told.iter().map(|told| told.kind.as_deref()))?;
    optional(&mut group, told.iter().map(|told| told.layer.as_deref()))?;
    texts(&mut group, told.iter().map(|told| told.detail.as_str()))?;
    group.close()?;
    file.into_inner()
}

fn missing() -> ParquetError {
    ParquetError::General("there are more columns than the schema has".to_owned())
}

fn texts<'a>(
    group: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
    values: impl Iterator<Item = &'a str>,
) -> Result<()> {
    let values: Vec<ByteArray> = values.map(ByteArray::from).collect();
    let mut column = group.next_column()?.ok_or_else(missing)?;
    column.typed::<ByteArrayType>().write_batch(&values, None, None)?;
    column.close()
}

fn optional<'a>(
    group: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
    values: impl Iterator<Item = Option<&'a str>>,
) -> Result<()> {
    let values: Vec<Option<&str>> = values.collect();
    let levels: Vec<i16> = values.iter().map(|value| i16::from(value.is_some())).collect();
    let there: Vec<ByteArray> = values.into_iter().flatten().map(ByteArray::from).collect();
    let mut column = group.next_column()?.ok_or_else(missing)?;
    column.typed::<ByteArrayType>().write_batch(&there, Some(&levels), None)?;
    column.close()
}

//! What can be called, for programs that find it out while they run: gRPC's reflection.
//!
//! The descriptions are those of the protocol's files in `proto`, compiled; a test holds them to those.

use std::sync::LazyLock;

use bytes::Bytes;
use h2::SendStream;

use super::call::{Code, Messages, PREFIX, Status, end, prefix, send};
use super::wire::{self, Fields, Malformed};

/// A `FileDescriptorSet` of everything there is.
const DESCRIPTORS: &[u8] = include_bytes!("../../proto/descriptors.bin");

const NOT_FOUND: u64 = 5;
const UNIMPLEMENTED: u64 = 12;

/// The most questions of one call.
const QUESTIONS: usize = 1_000;

static FILES: LazyLock<Vec<File>> = LazyLock::new(|| files().unwrap_or_default());

/// One of the protocol's files.
struct File {
    name: String,
    /// The names of the files that it needs.
    needs: Vec<String>,
    /// Everything that it declares, by its whole name.
    symbols: Vec<String>,
    services: Vec<String>,
    /// All of it, as it is sent.
    bytes: &'static [u8],
}

/// Answers questions until the caller has no more.
pub(super) async fn converse(mut messages: Messages, mut stream: SendStream<Bytes>) {
    for _ in 0..QUESTIONS {
        let answered = match messages.next().await {
            Ok(Some(message)) => answer(&message),
            Ok(None) => return end(stream, None),
            Err(status) => Err(status),
        };
        match answered {
            Ok(answer) => {
                if send(&mut stream, answer).await.is_none() {
                    return stream.send_reset(h2::Reason::CANCEL);
                }
            }
            Err(status) => return end(stream, Some(&status)),
        }
    }
    let what = format!("more than {QUESTIONS} questions in one call; begin another");
    end(stream, Some(&Status::new(Code::ResourceExhausted, what)));
}

fn answer(question: &[u8]) -> Result<Bytes, Status> {
    let mut out = vec![0; PREFIX];
    let malformed = |_| Status::new(Code::Internal, "this is no ServerReflectionRequest; send protobuf");
    write(question, &mut out).map_err(malformed)?;
    prefix(&mut out);
    Ok(out.into())
}

fn write(question: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
    let mut fields = Fields::of(question);
    let (mut host, mut asked) = ("", None);
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => host = value.text()?,
            3 | 4 | 7 => asked = Some((field, value.text()?)),
            5 | 6 => asked = Some((field, "")),
            _ => {}
        }
    }
    wire::text(out, 1, host.as_bytes());
    wire::bytes(out, 2, question);
    match asked {
        Some((3, name)) => write_files(FILES.iter().find(|file| file.name == name), out),
        Some((4, symbol)) => {
            let declares = |file: &&File| file.symbols.iter().any(|known| known == symbol);
            write_files(FILES.iter().find(declares), out);
        }
        Some((7, _)) => wire::message(out, 6, |out| {
            for service in FILES.iter().flat_map(|file| &file.services) {
                wire::message(out, 1, |out| wire::text(out, 1, service.as_bytes()));
            }
        }),
        // There are no extensions.
        Some(_) => write_error(NOT_FOUND, "there are no extensions", out),
        None => write_error(UNIMPLEMENTED, "this question is not known", out),
    }
    Ok(())
}

/// Writes a file and all that it needs.
fn write_files(first: Option<&File>, out: &mut Vec<u8>) {
    let Some(first) = first else { return write_error(NOT_FOUND, "there is no such file or symbol", out) };
    let mut sent: Vec<&File> = vec![first];
    let mut next = 0;
    while let Some(file) = sent.get(next) {
        next += 1;
        let needed = FILES.iter().filter(|other| file.needs.contains(&other.name));
        let new: Vec<&File> =
            needed.filter(|other| !sent.iter().any(|known| known.name == other.name)).collect();
        sent.extend(new);
    }
    wire::message(out, 4, |out| sent.iter().for_each(|file| wire::bytes(out, 1, file.bytes)));
}

fn write_error(code: u64, what: &str, out: &mut Vec<u8>) {
    wire::message(out, 7, |out| {
        wire::number(out, 1, code);
        wire::text(out, 2, what.as_bytes());
    });
}

/// Reads the descriptions.
fn files() -> Result<Vec<File>, Malformed> {
    let (mut all, mut fields) = (Vec::new(), Fields::of(DESCRIPTORS));
    while let Some((_, value)) = fields.next()? {
        all.push(File::read(value.bytes()?)?);
    }
    Ok(all)
}

impl File {
    fn read(bytes: &'static [u8]) -> Result<Self, Malformed> {
        let mut file =
            Self { name: String::new(), needs: Vec::new(), symbols: Vec::new(), services: Vec::new(), bytes };
        let (mut package, mut fields) = (String::new(), Fields::of(bytes));
        let mut declared = Vec::new();
        while let Some((field, value)) = fields.next()? {
            match field {
                1 => file.name = value.text()?.to_owned(),
                2 => package = value.text()?.to_owned(),
                3 => file.needs.push(value.text()?.to_owned()),
                4..=6 => declared.push((field, value.bytes()?)),
                _ => {}
            }
        }
        for (field, bytes) in declared {
            let name = format!("{package}.{}", name(bytes)?);
            if field == 6 {
                file.services.push(name.clone());
            }
            file.declare(field, &name, bytes)?;
        }
        Ok(file)
    }

    /// Notes what a message, an enum or a service is called, with what it holds.
    fn declare(&mut self, field: u32, own: &str, bytes: &[u8]) -> Result<(), Malformed> {
        self.symbols.push(own.to_owned());
        let mut fields = Fields::of(bytes);
        while let Some((inner, value)) = fields.next()? {
            match (field, inner) {
                // Messages and enums within a message; the methods of a service.
                (4, 3 | 4) => {
                    let bytes = value.bytes()?;
                    let name = format!("{own}.{}", name(bytes)?);
                    self.declare(if inner == 3 { 4 } else { 5 }, &name, bytes)?;
                }
                (6, 2) => self.symbols.push(format!("{own}.{}", name(value.bytes()?)?)),
                _ => {}
            }
        }
        Ok(())
    }
}

/// The name of what is declared in `bytes`.
fn name(bytes: &[u8]) -> Result<&str, Malformed> {
    let mut fields = Fields::of(bytes);
    while let Some((field, value)) = fields.next()? {
        if field == 1 {
            return value.text();
        }
    }
    Err(Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_described() {
        let services: Vec<&str> = FILES.iter().flat_map(|file| &file.services).map(String::as_str).collect();
        for service in [
            "envoy.service.ratelimit.v3.RateLimitService",
            "grpc.health.v1.Health",
            "grpc.reflection.v1.ServerReflection",
            "grpc.reflection.v1alpha.ServerReflection",
        ] {
            assert!(services.contains(&service), "{service}: {services:?}");
        }
        let symbols: Vec<&str> = FILES.iter().flat_map(|file| &file.symbols).map(String::as_str).collect();
        for symbol in [
            "envoy.service.ratelimit.v3.RateLimitResponse.DescriptorStatus",
            "envoy.service.ratelimit.v3.RateLimitService.ShouldRateLimit",
            "envoy.extensions.common.ratelimit.v3.RateLimitDescriptor.Entry",
        ] {
            assert!(symbols.contains(&symbol), "{symbol}: {symbols:?}");
        }
    }
}

//! Damage to archives of arrays that are archives afterwards: lengths and checksums fit again, mostly.

use crate::bytes::{self, WHOLE, below, pick};
use rand::{Rng, RngExt};
use std::io::{Cursor, Read, Write};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

const NAMES: [&str; 9] =
    ["x.npy", "env.npy", "targets.npy", "names.npy", "Env.npy", "TARGETS.npy", "x", "../x.npy", "y.npy"];
const TYPES: [&str; 16] = [
    "<f8",
    ">f8",
    "<f4",
    "<f2",
    "<i8",
    ">i2",
    "|i1",
    "<u8",
    "|b1",
    "<U3",
    ">U1",
    "|S4",
    "|O",
    "<U1000000000",
    "<f",
    "<c16",
];

/// Entries by name.
type Entries = Vec<(String, Vec<u8>)>;

fn unpacked(archive: &[u8]) -> Option<Entries> {
    let mut archive = ZipArchive::new(Cursor::new(archive)).ok()?;
    (0..archive.len())
        .map(|k| {
            let mut entry = archive.by_index(k).ok()?;
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).ok()?;
            Some((entry.name().ok()?.into_owned(), bytes))
        })
        .collect()
}

fn packed(rng: &mut impl Rng, entries: &Entries) -> Option<Vec<u8>> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in entries {
        let method =
            if rng.random_bool(0.3) { CompressionMethod::Deflated } else { CompressionMethod::Stored };
        // Two entries of one name are refused by the writer, and made below.
        writer.start_file(name.as_str(), SimpleFileOptions::default().compression_method(method)).ok()?;
        writer.write_all(bytes).ok()?;
    }
    Some(writer.finish().ok()?.into_inner())
}

/// The header's text and the entries of an array, if it is one.
fn parts(array: &[u8]) -> Option<(String, &[u8])> {
    let length = u16::from_le_bytes(array.get(8..10)?.try_into().ok()?) as usize;
    let header = std::str::from_utf8(array.get(10..10 + length)?).ok()?;
    Some((header.to_owned(), &array[10 + length..]))
}

fn array(header: &str, values: &[u8]) -> Vec<u8> {
    let length = (header.len() as u16).to_le_bytes();
    [b"\x93NUMPY\x01\0", &length[..], header.as_bytes(), values].concat()
}

/// Changes the header or the values of one array.
fn mutate_array(rng: &mut impl Rng, bytes: &mut Vec<u8>) {
    let Some((mut header, values)) = parts(bytes) else { return bytes::mutate(rng, bytes, &[]) };
    let mut values = values.to_vec();
    match below(rng, 6) {
        0 => {
            // Another type.
            let old = header.split('\'').nth(3).unwrap_or("<f8").to_owned();
            header = header.replacen(&old, pick(rng, &TYPES), 1);
        }
        1 => {
            // Another shape, with as many bytes as that says, if they are few.
            let rows = [0, 1, 2, 3, 9, 4000][below(rng, 6)];
            let columns = [0, 1, 2, 3, 70][below(rng, 5)];
            let start = header.find('(').unwrap_or(0);
            let end = header.find(')').unwrap_or(start);
            let shape = match below(rng, 4) {
                0 => format!("({rows},"),
                1 => format!("({},{}", WHOLE[below(rng, WHOLE.len())], WHOLE[below(rng, WHOLE.len())]),
                _ => format!("({rows}, {columns}"),
            };
            header.replace_range(start..end.max(start), &shape);
            if rng.random_bool(0.7) {
                values.resize((8 * rows * columns).min(bytes::MOST / 2), 0);
            }
        }
        2 => header = header.replace("False", "True"),
        3 => {
            let number = *pick(rng, &[&f64::NAN, &f64::INFINITY, &1e308, &-1e30, &5e-324, &0.0, &1.0]);
            if values.len() >= 8 {
                let at = 8 * below(rng, values.len() / 8);
                values[at..at + 8].copy_from_slice(&number.to_le_bytes());
            }
        }
        4 => bytes::mutate(rng, &mut values, &[]),
        _ => {
            let mut text = header.into_bytes();
            crate::text::mutate(rng, &mut text, &[], &["'descr'", "'shape'", "(", ")", "True", "'<f8'", ","]);
            header = String::from_utf8_lossy(&text).into_owned();
        }
    }
    *bytes = array(&header, &values);
}

/// Writes extremes over what the archive says of its entries.
fn lie(rng: &mut impl Rng, archive: &mut [u8]) {
    let signature: &[u8] = pick(rng, &[&b"PK\x01\x02"[..], b"PK\x03\x04", b"PK\x05\x06"]);
    let found: Vec<usize> =
        (0..archive.len().saturating_sub(30)).filter(|at| archive[*at..].starts_with(signature)).collect();
    if found.is_empty() {
        return;
    }
    let start = found[below(rng, found.len())];
    let at = start + 4 + below(rng, 40);
    let width = [2, 4][below(rng, 2)];
    let end = (at + width).min(archive.len());
    if at < end {
        archive[at..end].copy_from_slice(&WHOLE[below(rng, WHOLE.len())].to_le_bytes()[..end - at]);
    }
}

/// Changes an archive in one way.
pub fn mutate(rng: &mut impl Rng, input: &mut Vec<u8>, other: &[u8]) {
    let Some(mut entries) = unpacked(input).filter(|entries| !entries.is_empty()) else {
        return bytes::mutate(rng, input, other);
    };
    let at = below(rng, entries.len());
    match below(rng, 10) {
        0 => return bytes::mutate(rng, input, other),
        1 => return lie(rng, input),
        2 => drop(entries.remove(at)),
        3 => entries[at].0 = pick(rng, &NAMES).into(),
        4 => {
            if let Some(others) = unpacked(other).filter(|others| !others.is_empty()) {
                let (name, bytes) = others[below(rng, others.len())].clone();
                entries.retain(|(known, _)| *known != name);
                entries.push((name, bytes));
            }
        }
        5 => {
            // Much in little.
            let zeros = vec![0; [1000, 100_000, 1_000_000][below(rng, 3)]];
            let rows = zeros.len() / 8;
            entries[at].1 =
                array(&format!("{{'descr': '<f8', 'fortran_order': False, 'shape': ({rows}, 1), }}"), &zeros);
        }
        _ => mutate_array(rng, &mut entries[at].1),
    }
    if let Some(archive) = packed(rng, &entries) {
        *input = archive;
    }
    input.truncate(2 * bytes::MOST);
}

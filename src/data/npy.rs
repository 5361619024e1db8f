//! One `.npy` array inside an archive: its header, and its entries one at a time.
//!
//! Headers may come from untrusted files, so every length is checked before it is multiplied or allocated.

use std::io::Read;

/// The longest header in bytes. Headers name one type and a few lengths; numpy itself refuses more than 10 000 characters.
const MAX_HEADER: usize = 64 * 1024;
/// The bytes decoded at a time.
const CHUNK: usize = 64 * 1024;

/// What the header of an array declares.
#[derive(Debug)]
pub(super) struct Header {
    /// The type as the file spells it, such as `<f8`.
    pub(super) descr: String,
    /// `None` for structured types and anything else numpy's simple type strings cannot say.
    dtype: Option<Dtype>,
    pub(super) fortran: bool,
    pub(super) shape: Vec<usize>,
    /// The bytes before the entries.
    length: u64,
}

/// What a simple type string such as `<f8` says.
#[derive(Clone, Copy, Debug)]
struct Dtype {
    big_endian: bool,
    kind: Kind,
    /// Bytes of a number or byte string, characters of a Unicode string.
    size: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Bool,
    Int,
    Uint,
    Float,
    Bytes,
    Unicode,
}

impl Dtype {
    /// `None` for anything but the byte order, one letter and a size.
    fn parse(descr: &str) -> Option<Dtype> {
        let mut letters = descr.chars();
        let big_endian = match letters.next()? {
            '<' | '|' | '=' => false,
            '>' => true,
            _ => return None,
        };
        let kind = match letters.next()? {
            'b' => Kind::Bool,
            'i' => Kind::Int,
            'u' => Kind::Uint,
            'f' => Kind::Float,
            'S' | 'a' => Kind::Bytes,
            'U' => Kind::Unicode,
            _ => return None,
        };
        Some(Dtype { big_endian, kind, size: letters.as_str().parse().ok()? })
    }
}

/// How the bytes of one number are to be read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Number {
    kind: Kind,
    size: usize,
    big_endian: bool,
}

/// How the bytes of one string are to be read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Text {
    /// The bytes of each string, padded with zeros.
    pub(super) size: u64,
    /// Four bytes per character rather than UTF-8.
    wide: bool,
    big_endian: bool,
}

/// A number of an array, exactly.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value {
    Integer(i128),
    Float(f64),
}

impl Header {
    /// Reads the header, leaving `reader` at the first entry.
    pub(super) fn read(reader: &mut (impl Read + ?Sized)) -> Result<Header, String> {
        let mut start = [0; 8];
        fill(reader, &mut start)?;
        if &start[..6] != b"\x93NUMPY" {
            return Err("does not begin like an .npy array".into());
        }
        let (text_length, prefix) = match start[6] {
            1 => {
                let mut bytes = [0; 2];
                fill(reader, &mut bytes)?;
                (u16::from_le_bytes(bytes) as usize, 10)
            }
            2 | 3 => {
                let mut bytes = [0; 4];
                fill(reader, &mut bytes)?;
                (u32::from_le_bytes(bytes) as usize, 12)
            }
            other => return Err(format!("has .npy format version {other}, expected 1, 2 or 3")),
        };
        if text_length > MAX_HEADER {
            return Err(format!("has a header of {text_length} bytes, expected at most {MAX_HEADER}"));
        }
        let mut text = vec![0; text_length];
        fill(reader, &mut text)?;
        let text = String::from_utf8(text).map_err(|_| "has a header that is not text".to_string())?;
        let mut header = parse(&text).ok_or_else(|| {
            let beginning: String = text.trim().chars().take(100).collect();
            format!("has the header `{beginning}`, expected `descr`, `fortran_order` and `shape`")
        })?;
        header.length = (prefix + text_length) as u64;
        Ok(header)
    }

    /// The type as a number, unless it is not one.
    pub(super) fn number(&self) -> Option<Number> {
        let Dtype { big_endian, kind, size } = self.dtype?;
        let known = match kind {
            Kind::Bool => size == 1,
            Kind::Int | Kind::Uint => matches!(size, 1 | 2 | 4 | 8),
            Kind::Float => matches!(size, 4 | 8),
            Kind::Bytes | Kind::Unicode => false,
        };
        let size = usize::try_from(size).ok().filter(|_| known)?;
        Some(Number { kind, size, big_endian })
    }

    /// The type as strings, unless it is something else.
    pub(super) fn text(&self) -> Option<Text> {
        let Dtype { big_endian, kind, size } = self.dtype?;
        let wide = match kind {
            Kind::Unicode => true,
            Kind::Bytes => false,
            _ => return None,
        };
        Some(Text { size: size.checked_mul(if wide { 4 } else { 1 })?, wide, big_endian })
    }

    /// Checks that `stored`, the array's size in the archive with its header, is what the shape needs with
    /// `item` bytes per entry: only then are lengths derived from the shape safe to multiply and allocate.
    pub(super) fn check_size(&self, item: u64, stored: u64) -> Result<(), String> {
        let needed = self.shape.iter().try_fold(item, |product, &n| product.checked_mul(n as u64));
        let found = stored.saturating_sub(self.length);
        if needed == Some(found) {
            return Ok(());
        }
        let needed = needed.map_or("more than 2^64".into(), |n| n.to_string());
        Err(format!(
            "holds {found} bytes, expected {needed} for its shape {:?} and dtype {}",
            self.shape, self.descr
        ))
    }
}

impl Number {
    pub(super) fn size(self) -> usize {
        self.size
    }

    pub(super) fn is_float(self) -> bool {
        self.kind == Kind::Float
    }

    pub(super) fn is_integer(self) -> bool {
        matches!(self.kind, Kind::Int | Kind::Uint)
    }

    /// Decodes `bytes`, of which there are [`size`](Self::size).
    #[inline]
    pub(super) fn decode(self, bytes: &[u8]) -> Value {
        let mut low = [0; 8];
        for (k, &byte) in bytes.iter().enumerate() {
            low[if self.big_endian { bytes.len() - 1 - k } else { k }] = byte;
        }
        let bits = u64::from_le_bytes(low);
        let unused = 64 - 8 * self.size;
        match (self.kind, self.size) {
            (Kind::Float, 4) => Value::Float(f32::from_le_bytes([low[0], low[1], low[2], low[3]]).into()),
            (Kind::Float, _) => Value::Float(f64::from_bits(bits)),
            // Shifting up and back down repeats the sign bit.
            (Kind::Int, _) => Value::Integer((((bits << unused) as i64) >> unused).into()),
            _ => Value::Integer(bits.into()),
        }
    }
}

impl Text {
    /// Decodes `bytes`, unless they are not Unicode.
    pub(super) fn decode(self, bytes: &[u8]) -> Option<String> {
        let code = |&four| if self.big_endian { u32::from_be_bytes(four) } else { u32::from_le_bytes(four) };
        let text = if self.wide {
            bytes.as_chunks().0.iter().map(|four| char::from_u32(code(four))).collect::<Option<String>>()?
        } else {
            String::from_utf8(bytes.to_vec()).ok()?
        };
        Some(text.trim_end_matches('\0').to_string())
    }
}

impl Value {
    #[inline]
    pub(super) fn as_f64(self) -> f64 {
        match self {
            Value::Integer(value) => value as f64,
            Value::Float(value) => value,
        }
    }
}

/// Calls `each` with the position and bytes of each of `count` entries of `item` bytes, then expects the end.
pub(super) fn for_each(
    reader: &mut (impl Read + ?Sized),
    item: usize,
    count: usize,
    mut each: impl FnMut(usize, &[u8]) -> Result<(), String>,
) -> Result<(), String> {
    let per_chunk = (CHUNK / item.max(1)).max(1);
    let mut buffer = vec![0; per_chunk * item];
    let mut done = 0;
    while done < count {
        let now = per_chunk.min(count - done);
        fill(reader, &mut buffer[..now * item])?;
        for k in 0..now {
            each(done + k, &buffer[k * item..(k + 1) * item])?;
        }
        done += now;
    }
    // Archives verify their checksum when the end is reached.
    match reader.read(&mut [0]) {
        Ok(0) => Ok(()),
        Ok(_) => Err("goes on after its last entry".into()),
        Err(error) => Err(format!("is damaged: {error}")),
    }
}

fn fill(reader: &mut (impl Read + ?Sized), bytes: &mut [u8]) -> Result<(), String> {
    reader.read_exact(bytes).map_err(|error| match error.kind() {
        std::io::ErrorKind::UnexpectedEof => "is cut short".into(),
        _ => format!("is damaged: {error}"),
    })
}

/// Reads `{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }`, keys in any order.
fn parse(text: &str) -> Option<Header> {
    let mut rest = text.trim().strip_prefix('{')?.strip_suffix('}')?.trim();
    let (mut descr, mut fortran, mut shape) = (None, None, None);
    while !rest.is_empty() {
        let quote = rest.chars().next().filter(|&c| c == '\'' || c == '"')?;
        let (key, after) = rest[1..].split_once(quote)?;
        let after = after.trim_start().strip_prefix(':')?;
        let end = value_end(after);
        let value = after[..end].trim();
        match key {
            "descr" => descr = Some(value.trim_matches(['\'', '"']).to_string()),
            "fortran_order" => {
                fortran = match value {
                    "True" => Some(true),
                    "False" => Some(false),
                    _ => return None,
                }
            }
            "shape" => {
                let inner = value.strip_prefix('(')?.strip_suffix(')')?.trim();
                let inner = inner.strip_suffix(',').unwrap_or(inner);
                let lengths = inner.split(',').filter(|_| !inner.is_empty());
                shape = Some(lengths.map(|n| n.trim().parse().ok()).collect::<Option<Vec<usize>>>()?);
            }
            _ => {}
        }
        rest = after[end..].trim_start_matches(',').trim_start();
    }
    let descr = descr?;
    let dtype = Dtype::parse(&descr);
    Some(Header { descr, dtype, fortran: fortran?, shape: shape?, length: 0 })
}

/// Where the value at the beginning of `text` ends: at the first comma outside brackets and quotes.
fn value_end(text: &str) -> usize {
    let (mut depth, mut quote) = (0_usize, None);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '(' | '[' | '{') => depth += 1,
            (None, ')' | ']' | '}') => depth = depth.saturating_sub(1),
            (None, ',') if depth == 0 => return at,
            _ => {}
        }
    }
    text.len()
}

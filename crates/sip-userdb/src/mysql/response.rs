//! What a server answers to a command, packet by packet.

use super::login::refusal;
use super::wire::{Garbled, Reader};
use crate::fault::Fault;
use crate::sql::Kind;

/// The most bytes of rows that one answer may have. Beyond it the connection ends: what
/// comes then is no answer to what was asked.
const ANSWER_MAX: usize = 4 << 20;

/// The character set of bytes.
const BINARY: u16 = 63;

/// The most columns.
const COLUMNS_MAX: usize = 256;

/// Types of columns, by the manuals' numbers.
mod kind {
    pub(super) const NULL: u8 = 6;

    /// Bytes of a value; `None` where the value says it itself, as strings do, and dates in
    /// the same manner.
    pub(super) fn length(kind: u8) -> Option<usize> {
        Some(match kind {
            1 => 1,         // TINYINT
            2 | 13 => 2,    // SMALLINT, YEAR
            3 | 4 | 9 => 4, // INT, FLOAT, MEDIUMINT
            5 | 8 => 8,     // DOUBLE, BIGINT
            NULL => 0,
            _ => return None,
        })
    }

    /// VARCHAR, and all from ENUM to STRING, the BLOBs among them.
    pub(super) fn is_string(kind: u8) -> bool {
        kind == 15 || (247..=254).contains(&kind)
    }
}

/// What was asked, since the same bytes mean different things.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// COM_QUERY of something that gives no rows.
    Done,
    /// COM_STMT_PREPARE.
    Prepare,
    /// COM_STMT_EXECUTE.
    Execute,
}

/// A whole answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// So many rows were touched.
    Done(u64),
    /// A statement was prepared.
    Prepared(Prepared),
    /// Rows.
    Rows(Rows),
}

/// A statement as the server knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prepared {
    pub(crate) id: u32,
    pub(crate) parameters: u16,
}

/// Rows as they came, to be read one by one.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Rows {
    columns: Vec<Column>,
    bytes: Vec<u8>,
    /// Where each row ends.
    ends: Vec<usize>,
}

#[derive(Debug, PartialEq, Eq)]
struct Column {
    name: String,
    charset: u16,
    kind: u8,
}

/// An answer that is coming.
#[derive(Debug)]
pub(crate) struct Response {
    asked: Asked,
    deprecates_eof: bool,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Nothing has come yet.
    First,
    /// So many packets, which say nothing that is needed, and then the statement is ready.
    Skip { left: usize, then: Prepared },
    /// Descriptions of columns.
    Columns { left: usize, rows: Rows },
    /// The packet that ends them, where there is one.
    ColumnsEnd(Rows),
    /// Rows.
    Rows(Rows),
}

impl Response {
    /// Nothing has come yet.
    pub(crate) fn new(asked: Asked, deprecates_eof: bool) -> Self {
        Self {
            asked,
            deprecates_eof,
            state: State::First,
        }
    }

    /// Takes the next packet; the answer once it is whole, or the server's refusal. After an
    /// error, or a fault that is no refusal, nothing that comes can be understood.
    pub(crate) fn packet(
        &mut self,
        payload: &[u8],
    ) -> Result<Option<Result<Answer, Fault>>, Garbled> {
        let first = *payload.first().ok_or(Garbled)?;
        if first == 0xff {
            return Ok(Some(Err(refusal(payload))));
        }
        let state = std::mem::replace(&mut self.state, State::First);
        self.state = match state {
            State::First => match self.begin(payload)? {
                Begun::Whole(answer) => return Ok(Some(Ok(answer))),
                Begun::Goes(state) => state,
            },
            State::Skip { left: 0 | 1, then } => return Ok(Some(Ok(Answer::Prepared(then)))),
            State::Skip { left, then } => State::Skip {
                left: left - 1,
                then,
            },
            State::Columns { left, mut rows } => {
                rows.columns.push(column(payload)?);
                match (left, self.deprecates_eof) {
                    (0 | 1, true) => State::Rows(rows),
                    (0 | 1, false) => State::ColumnsEnd(rows),
                    _ => State::Columns {
                        left: left - 1,
                        rows,
                    },
                }
            }
            State::ColumnsEnd(rows) if is_end(payload) => State::Rows(rows),
            State::ColumnsEnd(_) => return Err(Garbled),
            State::Rows(rows) if is_end(payload) => {
                self.no_more_results(payload)?;
                return Ok(Some(Ok(Answer::Rows(rows))));
            }
            State::Rows(mut rows) => {
                if first != 0 {
                    return Err(Garbled);
                }
                if rows.bytes.len() + payload.len() > ANSWER_MAX {
                    return Ok(Some(Err(too_long())));
                }
                rows.bytes.extend_from_slice(payload);
                rows.ends.push(rows.bytes.len());
                State::Rows(rows)
            }
        };
        Ok(None)
    }

    fn begin(&self, payload: &[u8]) -> Result<Begun, Garbled> {
        let mut reader = Reader(payload);
        if self.asked == Asked::Prepare {
            if reader.u8()? != 0 {
                return Err(Garbled);
            }
            let id = reader.u32()?;
            let columns = reader.u16()?;
            let parameters = reader.u16()?;
            let prepared = Prepared { id, parameters };
            let packets = |count: u16| match (count, self.deprecates_eof) {
                (0, _) => 0,
                (count, true) => usize::from(count),
                (count, false) => usize::from(count) + 1,
            };
            return Ok(match packets(columns) + packets(parameters) {
                0 => Begun::Whole(Answer::Prepared(prepared)),
                left => Begun::Goes(State::Skip {
                    left,
                    then: prepared,
                }),
            });
        }
        let columns = match reader.0.first() {
            Some(0) => {
                reader.u8()?;
                let touched = reader.number()?;
                reader.number()?; // the last id that was inserted
                more_results(reader.u16()?)?;
                return Ok(Begun::Whole(Answer::Done(touched)));
            }
            _ => usize::try_from(reader.number()?).map_err(|_| Garbled)?,
        };
        if self.asked != Asked::Execute || columns > COLUMNS_MAX || !reader.is_at_end() {
            return Err(Garbled);
        }
        Ok(Begun::Goes(State::Columns {
            left: columns,
            rows: Rows::default(),
        }))
    }

    fn no_more_results(&self, end: &[u8]) -> Result<(), Garbled> {
        let mut reader = Reader(end);
        reader.u8()?;
        if self.deprecates_eof {
            reader.number()?;
            reader.number()?;
        } else {
            reader.u16()?;
        }
        more_results(reader.u16()?)
    }
}

fn too_long() -> Fault {
    Fault::Unreachable(format!(
        "an answer of more than {} MiB, whose end was not waited for: see what the statement \
         for users selects",
        ANSWER_MAX >> 20
    ))
}

enum Begun {
    Whole(Answer),
    Goes(State),
}

/// Refuses what says that another result follows: none was asked for.
fn more_results(status: u16) -> Result<(), Garbled> {
    match status & 8 {
        0 => Ok(()),
        _ => Err(Garbled),
    }
}

fn is_end(payload: &[u8]) -> bool {
    payload.first() == Some(&0xfe)
}

/// Catalogue, schema, table, its own name, name, own name; then numbers, the type among them.
fn column(payload: &[u8]) -> Result<Column, Garbled> {
    let mut reader = Reader(payload);
    for _ in 0..4 {
        reader.string()?;
    }
    let name = String::from_utf8_lossy(reader.string()?).into_owned();
    reader.string()?;
    reader.number()?;
    let charset = reader.u16()?;
    reader.u32()?; // the length
    let kind = reader.u8()?;
    Ok(Column {
        name,
        charset,
        kind,
    })
}

impl Rows {
    /// The columns' names and what they have, in order.
    pub(crate) fn columns(&self) -> impl Iterator<Item = (&str, Kind)> {
        self.columns.iter().map(|column| {
            let kind = match (kind::is_string(column.kind), column.charset) {
                (true, BINARY) => Kind::Bytes,
                (true, _) => Kind::Text,
                (false, _) => Kind::Other,
            };
            (column.name.as_str(), kind)
        })
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The rows, each a value for each column. Numbers come as they are sent.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Result<Vec<Option<&[u8]>>, Garbled>> {
        let begins = std::iter::once(0).chain(self.ends.iter().copied());
        begins.zip(&self.ends).map(|(begin, &end)| {
            let row = self.bytes.get(begin..end).ok_or(Garbled)?;
            self.row(row)
        })
    }

    /// A zero, a bit for each column that is NULL (from the third bit on), and the values.
    fn row<'a>(&self, row: &'a [u8]) -> Result<Vec<Option<&'a [u8]>>, Garbled> {
        let mut reader = Reader(row);
        reader.u8()?;
        let nulls = reader.bytes((self.columns.len() + 7 + 2) / 8)?;
        let mut values = Vec::with_capacity(self.columns.len());
        for (at, column) in self.columns.iter().enumerate() {
            let bit = at + 2;
            let is_null = nulls
                .get(bit / 8)
                .is_some_and(|byte| byte & (1 << (bit % 8)) != 0);
            values.push(match (is_null, kind::length(column.kind)) {
                (true, _) => None,
                (false, Some(length)) => Some(reader.bytes(length)?),
                (false, None) => Some(reader.string()?),
            });
        }
        match reader.is_at_end() {
            true => Ok(values),
            false => Err(Garbled),
        }
    }
}

#[cfg(test)]
mod tests;

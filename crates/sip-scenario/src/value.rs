//! Variables of a call, a user or the run.

use crate::program::{Compare, Scope, VarRef};

/// Bytes of a text, no fewer than of a datagram. What is more is cut off: a scenario may
/// put a text together from itself in a circle.
pub(crate) const TEXT_MAX: usize = 65_535;

/// What a variable holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Value {
    #[default]
    Unset,
    Bool(bool),
    Number(f64),
    Text(Vec<u8>),
}

impl Value {
    /// Whether `test=` and `condexec=` hold for it. The number 0 counts as unset.
    pub(crate) fn is_set(&self) -> bool {
        match self {
            Self::Unset | Self::Bool(false) => false,
            Self::Number(number) => *number != 0.0,
            Self::Bool(true) | Self::Text(_) => true,
        }
    }

    /// A text, as long as one may be.
    pub(crate) fn text(mut text: Vec<u8>) -> Self {
        text.truncate(TEXT_MAX);
        Self::Text(text)
    }

    /// As a number, for arithmetic: what is none counts as 0, and so does the outcome
    /// of a test.
    pub(crate) fn number(&self) -> f64 {
        match self {
            Self::Number(number) => *number,
            _ => 0.0,
        }
    }

    /// Read as a number, for `<todouble>`; a text without a byte is 0.
    pub(crate) fn read_number(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Bool(truth) => Some(f64::from(u8::from(*truth))),
            Self::Text(text) => read_number(text),
            Self::Unset => None,
        }
    }

    /// As a text, for comparisons and searches: what is none is empty there, though a
    /// message shows it.
    pub(crate) fn string(&self) -> &[u8] {
        match self {
            Self::Text(text) => text,
            _ => b"",
        }
    }

    /// Appends it as a message shows it.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        match self {
            // As SIPp prints it: nothing.
            Self::Number(0.0) | Self::Unset => {}
            Self::Bool(true) => out.extend_from_slice(b"true"),
            Self::Bool(false) => out.extend_from_slice(b"false"),
            Self::Number(number) => {
                use std::io::Write;
                // Writing to memory cannot fail.
                let _ = write!(out, "{number:.6}");
            }
            Self::Text(text) => out.extend_from_slice(text),
        }
    }

    /// Takes a text; memory that is there is used again.
    pub(crate) fn set_text(&mut self, text: &[u8]) {
        let text = text.get(..TEXT_MAX).unwrap_or(text);
        if let Self::Text(old) = self {
            old.clear();
            old.extend_from_slice(text);
        } else {
            *self = Self::Text(text.to_vec());
        }
    }
}

/// Reads a number: white space may stand before it, and nothing behind it. A text without a
/// byte is 0, as 0 prints.
pub(crate) fn read_number(text: &[u8]) -> Option<f64> {
    if text.is_empty() {
        return Some(0.0);
    }
    let text = std::str::from_utf8(text.trim_ascii_start()).ok()?;
    text.parse().ok()
}

impl Compare {
    pub(crate) fn holds(self, left: f64, right: f64) -> bool {
        match self {
            Self::Equal => left == right,
            Self::NotEqual => left != right,
            Self::Greater => left > right,
            Self::Less => left < right,
            Self::GreaterEqual => left >= right,
            Self::LessEqual => left <= right,
        }
    }
}

/// The variables that a call sees.
pub(crate) struct Scopes<'a> {
    pub(crate) call: &'a mut [Value],
    pub(crate) user: &'a mut [Value],
    pub(crate) global: &'a mut [Value],
}

impl Scopes<'_> {
    pub(crate) fn get(&self, variable: VarRef) -> &Value {
        const UNSET: &Value = &Value::Unset;
        let index = usize::from(variable.index);
        match variable.scope {
            Scope::Call => self.call.get(index),
            Scope::User => self.user.get(index),
            Scope::Global => self.global.get(index),
        }
        .unwrap_or(UNSET)
    }

    pub(crate) fn slot(&mut self, variable: VarRef) -> Option<&mut Value> {
        let index = usize::from(variable.index);
        match variable.scope {
            Scope::Call => self.call.get_mut(index),
            Scope::User => self.user.get_mut(index),
            Scope::Global => self.global.get_mut(index),
        }
    }

    pub(crate) fn set(&mut self, variable: VarRef, value: Value) {
        if let Some(slot) = self.slot(variable) {
            *slot = value;
        }
    }
}

//! Edits to a message: a list of places and what to put there, applied in one
//! copy in which every other byte stays as it came.

#[cfg(test)]
mod tests;

use crate::header::elements;
use crate::{Field, HeaderName, Message, Span};

/// Collects edits; the memory is used again.
///
/// Offsets are those of the message before any edit. Spans that are cut should
/// not overlap; where they do, their union is cut and every text is put in.
#[derive(Default, Debug)]
pub struct Edits {
    edits: Vec<Edit>,
    text: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct Edit {
    span: Span,
    text_start: usize,
    text_end: usize,
}

impl Edits {
    /// Forgets all edits.
    pub fn clear(&mut self) {
        self.edits.clear();
        self.text.clear();
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.edits.is_empty()
    }

    /// Puts `with` in the place of `span`. Spans must not overlap.
    pub fn replace(&mut self, span: Span, with: &[u8]) {
        self.add(span, |text| text.extend_from_slice(with));
    }

    /// Like `replace`, with a closure that writes to the edits' own buffer; it
    /// must only append.
    pub fn replace_with(&mut self, span: Span, write: impl FnOnce(&mut Vec<u8>)) {
        self.add(span, write);
    }

    /// Cuts `span`.
    pub fn remove(&mut self, span: Span) {
        self.add(span, |_| {});
    }

    /// Puts `text` before the byte at `offset`; several at one place in order.
    pub fn insert(&mut self, offset: u32, text: &[u8]) {
        self.replace(
            Span {
                start: offset,
                end: offset,
            },
            text,
        );
    }

    /// Like `insert`, with a closure that writes to the edits' own buffer; it
    /// must only append.
    pub fn insert_with(&mut self, offset: u32, write: impl FnOnce(&mut Vec<u8>)) {
        self.add(
            Span {
                start: offset,
                end: offset,
            },
            write,
        );
    }

    /// Cuts the first element of a comma-separated header, and the line with
    /// it where it was the only one.
    pub fn remove_first_value(&mut self, message: &Message, name: HeaderName) {
        self.remove_first_values(message, name, 1);
    }

    /// Cuts the first `count` elements of a comma-separated header, and the
    /// lines with them that have no other.
    pub fn remove_first_values(&mut self, message: &Message, name: HeaderName, count: usize) {
        let mut left = count;
        for field in message.fields_of(name) {
            if left == 0 {
                return;
            }
            left = self.remove_from_field(&field, left);
        }
    }

    /// Cuts all fields of that name.
    pub fn remove_all(&mut self, message: &Message, name: HeaderName) {
        for field in message.fields_of(name) {
            self.remove(field.line_span);
        }
    }

    /// Appends the edited message to `out`.
    pub fn apply(&mut self, message: &Message, out: &mut Vec<u8>) {
        self.apply_to(message.bytes(), out);
    }

    /// Appends the edited bytes to `out`.
    pub fn apply_to(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        // What is put in at a place stands before what is cut there; the text's
        // place in the buffer keeps the order in which the edits came.
        self.edits.sort_unstable_by_key(|edit| {
            (
                edit.span.start,
                !edit.span.is_empty(),
                edit.text_start,
                edit.span.end,
            )
        });
        let mut copied = 0;
        for edit in &self.edits {
            let start = (edit.span.start as usize).min(bytes.len());
            if start > copied {
                out.extend_from_slice(bytes.get(copied..start).unwrap_or_default());
                copied = start;
            }
            out.extend_from_slice(
                self.text
                    .get(edit.text_start..edit.text_end)
                    .unwrap_or_default(),
            );
            copied = copied.max(edit.span.end as usize);
        }
        out.extend_from_slice(bytes.get(copied..).unwrap_or_default());
    }

    fn add(&mut self, span: Span, write: impl FnOnce(&mut Vec<u8>)) {
        let text_start = self.text.len();
        write(&mut self.text);
        self.edits.push(Edit {
            span,
            text_start,
            text_end: self.text.len(),
        });
    }

    /// Cuts up to `left` elements of one field; returns how many are still to
    /// be cut elsewhere.
    fn remove_from_field(&mut self, field: &Field<'_>, left: usize) -> usize {
        if !field.name.is_list() {
            self.remove(field.line_span);
            return left - 1;
        }
        let mut cut = 0;
        for (_, span) in elements(field.value) {
            if cut == left {
                let start = field.value_span.start;
                self.remove(Span {
                    start,
                    end: start + span.start,
                });
                return 0;
            }
            cut += 1;
        }
        self.remove(field.line_span);
        left - cut
    }
}

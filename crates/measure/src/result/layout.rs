//! How a result's JSON is laid out: objects on lines of their own, so that
//! people can read and compare files; but lists compact, with each of their
//! objects on one line, because histograms and series have thousands of entries.

use std::io::{self, Write};

use serde_json::ser::Formatter;

#[derive(Default)]
pub(super) struct Layout {
    /// Objects open outside of lists.
    depth: usize,
    /// Lists open.
    lists: usize,
    /// Objects open inside of lists.
    inner: usize,
    /// The object that ends has a key.
    has_key: bool,
    /// The list that ends has an object.
    has_object: bool,
}

impl Layout {
    fn line<W: ?Sized + Write>(&self, writer: &mut W, depth: usize) -> io::Result<()> {
        writer.write_all(b"\n")?;
        (0..depth).try_for_each(|_| writer.write_all(b"  "))
    }
}

impl Formatter for Layout {
    fn begin_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.lists += 1;
        if self.lists == 1 {
            self.has_object = false;
        }
        writer.write_all(b"[")
    }

    fn end_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.lists -= 1;
        if self.lists == 0 && self.has_object {
            self.line(writer, self.depth)?;
        }
        writer.write_all(b"]")
    }

    fn begin_array_value<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        writer.write_all(if first { b"" } else { b"," })
    }

    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.has_key = false;
        if self.lists == 0 {
            self.depth += 1;
        } else {
            self.has_object = true;
            if self.inner == 0 {
                self.line(writer, self.depth + 1)?;
            }
            self.inner += 1;
        }
        writer.write_all(b"{")
    }

    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        if self.lists == 0 {
            self.depth -= 1;
            if self.has_key {
                self.line(writer, self.depth)?;
            }
        } else {
            self.inner -= 1;
        }
        self.has_key = true;
        writer.write_all(b"}")
    }

    fn begin_object_key<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        if !first {
            writer.write_all(b",")?;
        }
        if self.lists == 0 {
            return self.line(writer, self.depth);
        }
        writer.write_all(if first { b"" } else { b" " })
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, _writer: &mut W) -> io::Result<()> {
        self.has_key = true;
        Ok(())
    }
}

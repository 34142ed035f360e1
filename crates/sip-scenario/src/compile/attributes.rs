//! Attributes of an element: each is taken once, and what nobody took is told.

use crate::problem::{Problem, Source, Warnings};
use crate::xml::{Attribute, Element};

pub(crate) struct Attributes<'e> {
    source: Source<'e>,
    element: &'e Element,
    taken: Vec<bool>,
    warnings: Warnings,
}

impl<'e> Attributes<'e> {
    pub(crate) fn new(source: Source<'e>, element: &'e Element) -> Self {
        Self {
            source,
            element,
            taken: vec![false; element.attributes.len()],
            warnings: Warnings::default(),
        }
    }

    pub(crate) fn take(&mut self, name: &str) -> Option<&'e Attribute> {
        let index = self
            .element
            .attributes
            .iter()
            .position(|a| a.name == name)?;
        if let Some(taken) = self.taken.get_mut(index) {
            *taken = true;
        }
        self.element.attributes.get(index)
    }

    pub(crate) fn required(&mut self, name: &str) -> Result<&'e Attribute, Problem> {
        let element = self.element;
        self.take(name).ok_or_else(|| {
            let what = format!("<{}> needs {name}=\"...\"", element.name);
            self.source.problem(element.at, what)
        })
    }

    /// The text of an attribute.
    pub(crate) fn text(&mut self, name: &str) -> Option<(String, usize)> {
        let attribute = self.take(name)?;
        let text = String::from_utf8_lossy(&attribute.value).into_owned();
        Some((text, attribute.value_at))
    }

    /// A number; one without digits is 0, as SIPp reads it.
    pub(crate) fn number(&mut self, name: &str) -> Result<Option<f64>, Problem> {
        let Some((text, at)) = self.text(name) else {
            return Ok(None);
        };
        if self.is_blank(name, &text, at, "0") {
            return Ok(Some(0.0));
        }
        match text.trim().parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(Some(number)),
            _ => Err(self
                .source
                .problem(at, format!("{name} is a number, not {text:?}"))),
        }
    }

    /// A whole number, likewise.
    pub(crate) fn whole(&mut self, name: &str) -> Result<Option<u32>, Problem> {
        let Some((text, at)) = self.text(name) else {
            return Ok(None);
        };
        if self.is_blank(name, &text, at, "0") {
            return Ok(Some(0));
        }
        match text.trim().parse::<u32>() {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(self
                .source
                .problem(at, format!("{name} is a whole number, not {text:?}"))),
        }
    }

    /// Yes or no; any number but 0 is yes.
    pub(crate) fn flag(&mut self, name: &str) -> Result<bool, Problem> {
        let Some((text, at)) = self.text(name) else {
            return Ok(false);
        };
        if self.is_blank(name, &text, at, "false") {
            return Ok(false);
        }
        let word = text.trim();
        if word.eq_ignore_ascii_case("true") || word == "yes" {
            return Ok(true);
        }
        if word.eq_ignore_ascii_case("false") || word == "no" {
            return Ok(false);
        }
        word.parse::<i64>().map(|number| number != 0).map_err(|_| {
            let what = format!("{name} is \"true\" or \"false\", not {text:?}");
            self.source.problem(at, what)
        })
    }

    /// Whether an attribute is there, whatever it says.
    pub(crate) fn has(&mut self, name: &str) -> bool {
        self.take(name).is_some()
    }

    fn is_blank(&mut self, name: &str, text: &str, at: usize, meaning: &str) -> bool {
        let is_blank = text.trim().is_empty();
        if is_blank {
            let what = format!("{name} is empty and counts as {meaning}");
            self.warnings.add(self.source, at, what);
        }
        is_blank
    }

    /// Tells what was not taken, and what was taken with a warning.
    pub(crate) fn finish(mut self, warnings: &mut Warnings) {
        for (attribute, taken) in self.element.attributes.iter().zip(&self.taken) {
            if !taken {
                self.warnings.add(
                    self.source,
                    attribute.at,
                    format!(
                        "the attribute \"{}\" has no meaning in <{}> and is passed over",
                        attribute.name, self.element.name
                    ),
                );
            }
        }
        warnings.append(&mut self.warnings);
    }
}

/// The names in a list with commas, each with its place.
pub(crate) fn names(
    source: Source<'_>,
    attribute: &Attribute,
) -> Result<Vec<(String, usize)>, Problem> {
    let text = String::from_utf8_lossy(&attribute.value);
    let mut names = Vec::new();
    let mut at = attribute.value_at;
    for part in text.split(',') {
        let name = part.trim();
        let lead = part.len() - part.trim_start().len();
        if name.is_empty() {
            return Err(source.problem(at, format!("a name is missing in {}", attribute.name)));
        }
        names.push((name.to_owned(), at + lead));
        at += part.len() + 1;
    }
    Ok(names)
}

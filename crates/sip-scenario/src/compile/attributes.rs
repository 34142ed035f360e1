//! Attributes of an element: each is taken once, and what nobody took is refused.

use crate::problem::{Problem, Source};
use crate::xml::{Attribute, Element};

pub(crate) struct Attributes<'e> {
    source: Source<'e>,
    element: &'e Element,
    taken: Vec<bool>,
}

impl<'e> Attributes<'e> {
    pub(crate) fn new(source: Source<'e>, element: &'e Element) -> Self {
        Self {
            source,
            element,
            taken: vec![false; element.attributes.len()],
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

    pub(crate) fn number(&mut self, name: &str) -> Result<Option<f64>, Problem> {
        let Some((text, at)) = self.text(name) else {
            return Ok(None);
        };
        match text.trim().parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(Some(number)),
            _ => Err(self
                .source
                .problem(at, format!("{name} is a number, not {text:?}"))),
        }
    }

    pub(crate) fn whole(&mut self, name: &str) -> Result<Option<u32>, Problem> {
        let Some((text, at)) = self.text(name) else {
            return Ok(None);
        };
        match text.trim().parse::<u32>() {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(self
                .source
                .problem(at, format!("{name} is a whole number, not {text:?}"))),
        }
    }

    pub(crate) fn flag(&mut self, name: &str) -> Result<bool, Problem> {
        let Some((text, at)) = self.text(name) else {
            return Ok(false);
        };
        match text.trim() {
            "true" | "yes" | "1" => Ok(true),
            "false" | "no" | "0" => Ok(false),
            _ => Err(self
                .source
                .problem(at, format!("{name} is \"true\" or \"false\", not {text:?}"))),
        }
    }

    /// Refuses what was not taken.
    pub(crate) fn finish(&self) -> Result<(), Problem> {
        let left = self
            .element
            .attributes
            .iter()
            .zip(&self.taken)
            .find(|(_, taken)| !**taken);
        match left {
            Some((attribute, _)) => Err(self.source.problem(
                attribute.at,
                format!(
                    "the attribute \"{}\" of <{}> is not covered",
                    attribute.name, self.element.name
                ),
            )),
            None => Ok(()),
        }
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

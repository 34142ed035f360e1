//! Cases, chosen by their labels.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, SeqAccess, Visitor};

/// Cases, chosen by their labels: for each axis that is named, one place or several.
/// One that names no axis picks all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Pick(pub BTreeMap<String, Places>);

/// One or more places of an axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places(pub Vec<String>);

impl Pick {
    /// Whether labels have one of the places on every axis that is named.
    pub fn fits(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.iter().all(|(axis, places)| {
            labels
                .get(axis)
                .is_some_and(|label| places.0.contains(label))
        })
    }

    /// Whether the axis is named.
    pub fn names(&self, axis: &str) -> bool {
        self.0.contains_key(axis)
    }
}

impl fmt::Display for Pick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("all cases");
        }
        for (nth, (axis, places)) in self.0.iter().enumerate() {
            if nth > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{axis} {}", places.0.join(" or "))?;
        }
        Ok(())
    }
}

impl<'de> Deserialize<'de> for Places {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PlacesVisitor)
    }
}

struct PlacesVisitor;

impl<'de> Visitor<'de> for PlacesVisitor {
    type Value = Places;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a place of the axis or a list of them, in quotes")
    }

    fn visit_str<E>(self, text: &str) -> Result<Places, E> {
        Ok(Places(vec![text.to_owned()]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Places, A::Error> {
        let mut places = Vec::new();
        while let Some(place) = list.next_element::<String>()? {
            places.push(place);
        }
        Ok(Places(places))
    }
}

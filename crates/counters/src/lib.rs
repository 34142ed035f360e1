#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

/// What a [`counters!`] struct shows.
pub trait Counted: Default + 'static {
    /// All its families, in the order of its fields.
    const FAMILIES: &'static [Family<Self>];
}

/// A field of a [`counters!`] struct, as Prometheus knows it.
pub struct Family<C> {
    /// Its name.
    pub name: &'static str,
    /// `counter` or `gauge`.
    pub kind: &'static str,
    /// One sentence of help: the field's documentation.
    pub help: &'static str,
    /// The label that tells its numbers apart; empty where there is one number.
    pub label: &'static str,
    /// The label's value for each number.
    pub values: fn() -> Vec<&'static str>,
    /// Its numbers.
    pub numbers: fn(&C) -> &[u64],
    /// The same, to add to.
    pub numbers_mut: fn(&mut C) -> &mut [u64],
}

/// What several counted, together.
pub fn sum<'c, C: Counted>(all: impl Iterator<Item = &'c C>) -> C {
    let mut sum = C::default();
    for of in all {
        for family in C::FAMILIES {
            let numbers = (family.numbers_mut)(&mut sum).iter_mut();
            numbers
                .zip((family.numbers)(of))
                .for_each(|(sum, number)| *sum += number);
        }
    }
    sum
}

/// A field that counts: one number, or one for each value of a label.
pub trait Numbers {
    /// The numbers.
    fn numbers(&self) -> &[u64];
    /// The same, to add to.
    fn numbers_mut(&mut self) -> &mut [u64];
}

impl Numbers for u64 {
    fn numbers(&self) -> &[u64] {
        std::slice::from_ref(self)
    }
    fn numbers_mut(&mut self) -> &mut [u64] {
        std::slice::from_mut(self)
    }
}

impl<const N: usize> Numbers for [u64; N] {
    fn numbers(&self) -> &[u64] {
        self
    }
    fn numbers_mut(&mut self) -> &mut [u64] {
        self
    }
}

/// Makes a struct and its table of families. A field that is a struct of counters
/// itself stands in front, among the `parts`: its owner shows it.
#[macro_export]
macro_rules! counters {
    (
        $(#[$meta:meta])*
        $vis:vis struct $Name:ident {
            $(parts { $($(#[$of_part:meta])* $its:vis $part:ident: $Part:ty,)* })?
            $(
                $(#[doc = $help:literal])+
                $of:vis $field:ident: $Type:ty = $kind:ident($name:literal $(, $label:ident: $values:expr)?),
            )*
        }
    ) => {
        $(#[$meta])*
        $vis struct $Name {
            $($($(#[$of_part])* $its $part: $Part,)*)?
            $($(#[doc = $help])+ $of $field: $Type,)*
        }

        impl $crate::Counted for $Name {
            const FAMILIES: &'static [$crate::Family<Self>] = &[$($crate::Family {
                name: $name,
                kind: stringify!($kind),
                help: concat!($($help),+),
                label: concat!($(stringify!($label))?),
                values: || [""; 0].into_iter()$(.chain($values))?.collect(),
                numbers: |of| $crate::Numbers::numbers(&of.$field),
                numbers_mut: |of| $crate::Numbers::numbers_mut(&mut of.$field),
            }),*];
        }
    };
}

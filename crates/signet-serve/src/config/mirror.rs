//! Tables that another crate has as a struct with the same names of fields.

/// Gives a table its defaults, and has the struct made of it. The fields before the
/// semicolon are in both: their defaults are those of the struct, where no other is
/// written here. Those behind it are the table's own. What the struct has besides
/// keeps its default.
macro_rules! mirror {
    ($Table:ident of $Struct:ty:
     $($field:ident $(= $usual:expr)?),*; $($own:ident = $default:expr),*) => {
        impl Default for $Table {
            fn default() -> Self {
                let given = <$Struct>::default();
                Self {
                    $($field: mirror!(@ given.$field $(, $usual)?),)*
                    $($own: $default,)*
                }
            }
        }

        impl From<&$Table> for $Struct {
            #[allow(clippy::clone_on_copy, clippy::needless_update)]
            fn from(table: &$Table) -> Self {
                Self {
                    $($field: table.$field.clone(),)*
                    ..Self::default()
                }
            }
        }
    };
    (@ $given:expr) => { $given };
    (@ $given:expr, $usual:expr) => { $usual };
}

pub(super) use mirror;

//! Choices that have a name on the command line, in files and in reports.

/// Gives an enum of plain variants `ALL`, `name()`, `Display` and a `FromStr` whose error lists the known names.
macro_rules! named {
    ($choice:ident, $what:literal, { $($variant:ident => $name:literal),+ $(,)? }) => {
        impl $choice {
            /// Every choice there is.
            pub const ALL: &[$choice] = &[$($choice::$variant),+];

            /// The name on the command line, in files and in reports.
            pub fn name(self) -> &'static str {
                match self {
                    $($choice::$variant => $name),+
                }
            }
        }

        impl std::fmt::Display for $choice {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl std::str::FromStr for $choice {
            type Err = $crate::Error;

            fn from_str(name: &str) -> $crate::Result<Self> {
                $choice::ALL.iter().copied().find(|choice| choice.name() == name).ok_or_else(|| {
                    let known: Vec<_> = $choice::ALL.iter().map(|choice| choice.name()).collect();
                    let problem = format!("unknown {} '{name}', expected one of {}", $what, known.join(", "));
                    $crate::Error::invalid(problem)
                })
            }
        }
    };
}
pub(crate) use named;

#[cfg(test)]
mod tests {
    use crate::kernel::KernelKind;
    use crate::objective::{Estimator, Objective};

    #[test]
    fn names_parse_and_unknown_ones_list_the_known() {
        for &kernel in KernelKind::ALL {
            assert_eq!(kernel.to_string().parse::<KernelKind>().unwrap(), kernel);
        }
        for &estimator in Estimator::ALL {
            assert_eq!(estimator.name().parse::<Estimator>().unwrap(), estimator);
        }
        let sentence = "ksd".parse::<Objective>().unwrap_err().to_string();
        assert_eq!(sentence, "unknown objective 'ksd', expected one of skds, kds");
    }
}

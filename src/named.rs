//! Enums whose variants have names on the command line, in files and in reports.

/// Gives an enum of plain variants `ALL`, `name()`, `Display` and a `FromStr` whose error lists the known names.
macro_rules! named {
    ($choice:ident, $what:literal, { $($variant:ident => $name:literal),+ $(,)? }) => {
        // Some of the enums are seen by their own room alone.
        #[allow(unreachable_pub)]
        impl $choice {
            /// All variants.
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

/// Serialises a value by its name.
pub(crate) mod by_name {
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(crate) fn serialize<V: std::fmt::Display, S: Serializer>(
        value: &V,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    /// Numbers without quotes are accepted, too.
    pub(crate) fn deserialize<'de, V: std::str::FromStr<Err = crate::Error>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<V, D::Error> {
        Given::deserialize(deserializer)?.parse()
    }

    /// A name, or a number in place of one.
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Given {
        Text(String),
        Whole(i64),
        Number(f64),
    }

    impl Given {
        fn parse<V: std::str::FromStr<Err = crate::Error>, E: de::Error>(self) -> Result<V, E> {
            let text = match self {
                Given::Text(text) => text,
                Given::Whole(number) => number.to_string(),
                Given::Number(number) => number.to_string(),
            };
            text.parse().map_err(E::custom)
        }
    }

    /// The same for optional values.
    pub(crate) mod optional {
        use super::Given;
        use serde::{Deserialize, Deserializer, Serializer};

        pub(crate) fn serialize<V: std::fmt::Display, S: Serializer>(
            value: &Option<V>,
            serializer: S,
        ) -> Result<S::Ok, S::Error> {
            match value {
                Some(value) => serializer.collect_str(value),
                None => serializer.serialize_none(),
            }
        }

        pub(crate) fn deserialize<'de, V: std::str::FromStr<Err = crate::Error>, D: Deserializer<'de>>(
            deserializer: D,
        ) -> Result<Option<V>, D::Error> {
            Option::<Given>::deserialize(deserializer)?.map(Given::parse).transpose()
        }
    }
}

#[cfg(test)]
mod tests {
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Fruit {
        Apple,
        Pear,
    }

    named!(Fruit, "fruit", { Apple => "apple", Pear => "pear" });

    #[test]
    fn names_parse_and_unknown_ones_list_the_known() {
        for &fruit in Fruit::ALL {
            assert_eq!(fruit.to_string().parse::<Fruit>().unwrap(), fruit);
        }
        let sentence = "plum".parse::<Fruit>().unwrap_err().to_string();
        assert_eq!(sentence, "unknown fruit 'plum', expected one of apple, pear");
    }
}

//! What follows from the list of kernels in the module above.

/// Makes of the list of kernels:
///
/// - `Kernel` and `KernelKind` with a variant for each, their names, and the ways between them;
/// - `with_profile!(kernel, T, |profile| …)`, which compiles an expression once for every profile;
/// - `KernelKind::shader`, the name and the text of the file in `shaders/kernel/`.
///
/// An entry is `file::Profile = "name", shader "file";`, with `{ bandwidth }` after the profile if it has one. The
/// profile's type has a function `new`, which takes the bandwidth if there is one. (The list begins with `$`, because a
/// macro that defines a macro cannot write that sign itself.)
macro_rules! kernels {
    ($d:tt $(
        $(#[doc = $doc:literal])+
        $file:ident::$kernel:ident $({ $bandwidth:ident })? = $name:literal, shader $shader:literal;
    )+) => {
        $(pub use $file::$kernel;)+

        /// A kernel with its bandwidth h, if it has one.
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub enum Kernel {
            $(
                $(#[doc = $doc])+
                $kernel $({
                    /// h.
                    $bandwidth: f64,
                })?,
            )+
        }

        /// Which kernel, whatever its bandwidth.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum KernelKind {
            $(
                $(#[doc = $doc])+
                $kernel,
            )+
        }

        $crate::named::named!(KernelKind, "kernel", { $($kernel => $name),+ });

        impl Kernel {
            /// Which kernel this is.
            pub fn kind(&self) -> KernelKind {
                match self {
                    $(Kernel::$kernel { .. } => KernelKind::$kernel,)+
                }
            }

            /// h, if the kernel has one.
            pub fn bandwidth(&self) -> Option<f64> {
                match *self {
                    $(Kernel::$kernel $({ $bandwidth })? => <[f64]>::first(&[$($bandwidth)?]).copied(),)+
                }
            }
        }

        impl KernelKind {
            /// The kernel with bandwidth `h`, which must be finite and above 0; a kernel without bandwidth ignores it.
            fn at_bandwidth(self, h: f64) -> Kernel {
                match self {
                    $(KernelKind::$kernel => Kernel::$kernel $({ $bandwidth: h })?,)+
                }
            }

            /// The shader part with φ and its derivatives: its name and its text.
            #[cfg(feature = "gpu")]
            pub(crate) fn shader(self) -> (&'static str, &'static str) {
                match self {
                    $(KernelKind::$kernel => (
                        concat!("kernel/", $shader),
                        include_str!(concat!("../../shaders/kernel/", $shader, ".wgsl")),
                    ),)+
                }
            }
        }

        /// Runs an expression with the [`Profile`] of a [`Kernel`] in precision `$t`.
        macro_rules! with_profile {
            ($d kernel:expr, $d t:ty, |$d profile:ident| $d body:expr) => {
                match $d kernel {
                    $($crate::kernel::Kernel::$kernel $({ $bandwidth })? => {
                        let profile = $crate::kernel::$kernel::new($($bandwidth)?);
                        let $d profile = $crate::kernel::in_precision::<$d t, _>(profile);
                        $d body
                    })+
                }
            };
        }
    };
}
pub(super) use kernels;

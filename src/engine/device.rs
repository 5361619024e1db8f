//! Which device computes.

use super::Engine;
use super::cpu::CpuEngine;
use crate::Scalar;
use crate::named::named;

/// A device as named on the command line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Device {
    /// The best there is: today the CPU engine.
    #[default]
    Auto,
    /// The CPU engine.
    Cpu,
}

impl Device {
    /// The engine that computes on this device.
    pub fn engine<T: Scalar>(self) -> Box<dyn Engine<T>> {
        match self {
            Device::Auto | Device::Cpu => Box::new(CpuEngine),
        }
    }
}

named!(Device, "device", { Auto => "auto", Cpu => "cpu" });

//! Which device computes.

use super::Engine;
use super::cpu::CpuEngine;
use crate::{Error, Result, Scalar};
use std::str::FromStr;

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

impl FromStr for Device {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "auto" => Ok(Device::Auto),
            "cpu" => Ok(Device::Cpu),
            _ => Err(Error::invalid(format!("unknown device '{name}', expected one of auto, cpu"))),
        }
    }
}

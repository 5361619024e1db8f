//! Keeps other people's messages out of ours.

/// Where there is no desktop session, Mesa's device-selection layer complains on standard error that
/// `XDG_RUNTIME_DIR` is not set, in a line that looks like one of our errors. The layer only reorders devices and can be
/// turned off, but only by the environment a process starts with: so the command starts itself once more with it.
/// Does nothing if there is a session, if the layer is off already, or if that fails.
#[cfg(target_os = "linux")]
pub(super) fn quieten_mesa() {
    use std::os::unix::process::CommandExt;
    const SWITCH: &str = "NODEVICE_SELECT";
    if std::env::var_os("XDG_RUNTIME_DIR").is_some() || std::env::var_os(SWITCH).is_some() {
        return;
    }
    if let Ok(program) = std::env::current_exe() {
        let mut arguments = std::env::args_os();
        let name = arguments.next().unwrap_or_else(|| program.clone().into());
        // Comes back only if it fails; then we go on as we are.
        let _ = std::process::Command::new(program).arg0(name).args(arguments).env(SWITCH, "1").exec();
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn quieten_mesa() {}

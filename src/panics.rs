//! Panics of other crates become errors here, without the default hook's report on standard error, which would look like a
//! crash. wgpu panics where a device is lost in the middle of a call; a reader of files may where one is damaged.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Runs `call`; a panic comes back as its message.
pub(crate) fn caught<R>(call: impl FnOnce() -> R) -> Result<R, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                before(info);
            }
        }));
    });
    let outer = QUIET.replace(true);
    let result = catch_unwind(AssertUnwindSafe(call));
    QUIET.set(outer);
    result.map_err(|payload| {
        let text = payload.downcast_ref::<&str>().map(|s| (*s).to_owned());
        text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "unknown reason".into())
    })
}

#[cfg(test)]
mod tests {
    use super::caught;

    #[test]
    fn panics_become_messages() {
        assert_eq!(caught(|| 3), Ok(3));
        assert_eq!(caught(|| -> u8 { panic!("gone") }), Err("gone".to_owned()));
        let number = 5;
        assert_eq!(caught(|| -> u8 { panic!("gone {number}") }), Err("gone 5".to_owned()));
    }
}

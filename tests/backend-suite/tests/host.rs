//! The suite on the host backend.

use std::sync::{Arc, Mutex};

use backend_suite::{Bench, cases};
use graph_host::{Host, Live};

/// Runs a case on devices that must have nothing left when it is over.
fn run(group: &str, name: &str) {
    let case = cases::<Host>().into_iter().find(|case| (case.group, case.name) == (group, name));
    let opened = Arc::new(Mutex::new(Vec::new()));
    let devices = opened.clone();
    let bench = Bench::new(move || {
        let host = Host::new();
        devices.lock().expect("no panic").push(host.clone());
        Ok(host)
    });
    (case.expect("listed").run)(&bench).unwrap_or_else(|error| panic!("{error}"));
    let opened = opened.lock().expect("no panic");
    assert!(!opened.is_empty(), "it has run on a device");
    for host in opened.iter() {
        let live = host.live();
        assert_eq!(live, Live { put_aside_ever: live.put_aside_ever, ..Live::default() }, "left behind");
    }
}

macro_rules! tests {
    ($($group:ident { $($name:ident,)* })*) => { $(
        mod $group {
            $(
                #[test]
                fn $name() {
                    crate::run(stringify!($group), stringify!($name));
                }
            )*
        }
    )* };
}
backend_suite::each_case!(tests);

//! One piece of work: what a stream's queue and a graph's node hold, and how it runs.
use super::abi::{Handle, HostFn};
use super::codes::Code;
use super::kernels::Launch;
use super::memory::{Kind, Range};
use super::raw;
use super::state::{State, as_host_function};
use std::ffi::c_void;
use std::sync::Arc;

/// One end of a copy.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum End {
    /// Device or pinned memory of this driver.
    Ours(Range),
    /// Any other host memory.
    Pageable(usize),
    /// The bytes of pageable memory, taken when the copy was enqueued.
    Staged(Arc<[u8]>),
}

#[derive(Clone)]
pub(crate) enum Op {
    Kernel(Arc<Launch>),
    Copy { dst: End, src: End, len: usize },
    Set { dst: Range, value: u32, width: usize, count: usize },
    Alloc(Range),
    Free(Range),
    Host { function: HostFn, data: usize },
    Record { event: Handle },
    Wait { stream: Handle, upto: u64 },
    Graph(Arc<[Op]>),
}

impl State {
    /// Runs one piece of work. What it does wrong poisons the context; work behind it in a poisoned context
    /// is void.
    pub(crate) fn execute(&mut self, context: Handle, op: Op) {
        if self.outcome(context).is_err() {
            return;
        }
        let done = match op {
            Op::Kernel(launch) => self.run_kernel(&launch),
            Op::Copy { dst, src, len } => self.run_copy(&dst, &src, len),
            Op::Set { dst, value, width, count } => {
                self.check(dst, "a memset").map(|()| raw::set(dst.addr, value, width, count))
            }
            Op::Alloc(range) => {
                self.memory.refill(range.addr, true);
                Ok(())
            }
            Op::Free(range) => {
                self.run_free(range);
                Ok(())
            }
            Op::Host { function, data } => {
                let data = std::ptr::with_exposed_provenance_mut::<c_void>(data);
                // SAFETY: the program gave the function and its argument to `cuLaunchHostFunc` to be called
                // like this.
                as_host_function(|| unsafe { function(data) });
                Ok(())
            }
            Op::Record { event } => {
                if let Some(event) = self.events.get_mut(&event) {
                    event.time = Some(std::time::Instant::now());
                }
                Ok(())
            }
            Op::Wait { stream, upto } => {
                self.run(stream, upto);
                Ok(())
            }
            Op::Graph(ops) => {
                ops.iter().for_each(|op| self.execute(context, op.clone()));
                Ok(())
            }
        };
        if let Err((code, why)) = done {
            self.poison(context, code, why);
        }
    }

    /// Whether memory is still there when work on it runs.
    pub(crate) fn check(&self, range: Range, what: &str) -> Result<(), (Code, String)> {
        let refuse =
            |why| (Code::ILLEGAL_ADDRESS, format!("{what}: {} bytes at {:#x}: {why}", range.len, range.addr));
        self.memory.check(range).map_err(refuse)
    }

    fn run_copy(&self, dst: &End, src: &End, len: usize) -> Result<(), (Code, String)> {
        for (end, what) in [(dst, "the destination of a copy"), (src, "the source of a copy")] {
            if let End::Ours(range) = end {
                self.check(*range, what)?;
            }
        }
        let dst = match dst {
            End::Ours(range) => range.addr,
            End::Pageable(addr) => *addr,
            End::Staged(_) => return Ok(()),
        };
        match src {
            End::Ours(range) => raw::copy(dst, range.addr, len),
            End::Pageable(addr) => raw::copy(dst, *addr, len),
            End::Staged(bytes) => raw::write(dst, bytes),
        }
        Ok(())
    }

    fn run_free(&mut self, range: Range) {
        if self.memory.get(range.addr).is_some_and(|it| it.kind == Kind::Graph) {
            self.memory.refill(range.addr, false);
            self.sweep_graph_memory();
        } else {
            self.release_memory(range.addr);
        }
    }

    /// Ends an allocation now, and notes what was written outside it.
    pub(crate) fn release_memory(&mut self, addr: usize) {
        if let Err(Some(damage)) = self.memory.release(addr) {
            self.faults.push(damage);
        }
        let late = self.memory.trim_quarantine();
        self.faults.extend(late);
    }
}

//! One schedule: which requests arrive when, which are cancelled when, and how they are served.

use engine::scheduler::{Counts, Finished, Limits, Scheduler};
use graph_core::{Engine, RequestId};
use graph_host::Host;
use graph_resources::SampleParams;

use crate::{
    audit::Audit,
    node::ALIAS,
    tiny::{CONTEXT, VOCAB},
};

/// A prompt on its way.
#[derive(Clone, Debug)]
pub(crate) struct Prompt {
    pub(crate) tokens: Vec<u32>,
    pub(crate) params: SampleParams,
    pub(crate) at_step: usize,
    /// The step before which it is cancelled.
    pub(crate) cancel_at: Option<usize>,
}

/// Prompts, and how they are served.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    pub(crate) prompts: Vec<Prompt>,
    pub(crate) max_new_tokens: usize,
    pub(crate) max_batch: usize,
    pub(crate) prefill_budget: usize,
    /// Decode by the walk that nothing is captured for under its own name.
    pub(crate) alias: bool,
}

/// What a schedule gave: `None` for a prompt that was cancelled before its end.
pub(crate) struct Served {
    pub(crate) finished: Vec<Option<Finished>>,
    pub(crate) counts: Counts,
}

impl Schedule {
    /// Serves them all; with `audit` the pages are looked at after every call, and always at the end.
    pub(crate) fn serve(&self, engine: &mut Engine<Host>, prefill: &'static str, audit: bool) -> Served {
        let stream = engine.stream().clone();
        let decode = if self.alias { ALIAS } else { "decode" };
        let limits = limits(self.max_new_tokens, self.max_batch, self.prefill_budget, prefill, decode);
        let node = engine.node("llama").expect("there");
        let mut watch = audit.then(|| Audit::begin(node, &stream));
        let mut scheduler = Scheduler::new(node, &stream, limits).expect("limits");
        scheduler.on_call(move |node, requests| {
            watch.iter_mut().for_each(|w| w.after_call(node, requests));
        });
        let mut finished = vec![None; self.prompts.len()];
        let last = self.prompts.iter().map(|p| p.at_step).max().unwrap_or(0);
        for step in 0.. {
            for (i, prompt) in self.prompts.iter().enumerate() {
                let request = RequestId(i as u64);
                if prompt.at_step == step {
                    scheduler.submit(request, prompt.tokens.clone(), prompt.params).expect("it fits");
                }
                if prompt.cancel_at == Some(step) {
                    scheduler.cancel(request);
                }
            }
            scheduler.step(|_| Ok(())).expect("a step");
            for f in scheduler.take_finished() {
                let i = f.request.0 as usize;
                assert!(finished[i].replace(f).is_none(), "request {i} ended twice");
            }
            if step >= last && scheduler.is_idle() {
                break;
            }
            assert!(step < 20_000, "no end in sight: {self:?}");
        }
        let counts = scheduler.counts();
        drop(scheduler);
        Audit::nothing_left(engine.node("llama").expect("there"));
        Served { finished, counts }
    }
}

/// The limits of the tiny model.
pub(crate) fn limits(
    max_new_tokens: usize,
    max_batch: usize,
    prefill_budget: usize,
    prefill: &'static str,
    decode: &'static str,
) -> Limits {
    Limits { max_new_tokens, max_batch, prefill_budget, context: CONTEXT, vocab: VOCAB, prefill, decode }
}

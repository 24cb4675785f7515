//! One suite of cases that every backend runs unchanged: what graph-core promises, on a device.
//!
//! A case is a generic function over [`SuiteOps`]. It opens fresh devices, and fails by a panic or an error. The list of
//! cases is one macro, [`each_case`], which becomes one test per case and backend, and a table ([`cases`]) for programs
//! that run on a device of their own choice, such as `gpu-suite` on a GPU:
//!
//! ```
//! use backend_suite::{Bench, cases};
//! use graph_host::Host;
//!
//! let bench = Bench::new(|| Ok(Host::new()));
//! for case in cases::<Host>().iter().filter(|case| case.group == "slots") {
//!     (case.run)(&bench)?;
//! }
//! # Ok::<(), graph_core::Error>(())
//! ```
//!
//! Over the [stand-in driver](stand_in) the CUDA backend runs the kernels' own source on the host. What passes there is
//! not a GPU result.

mod bench;
mod compare;
mod cuda_ops;
mod groups;
mod host_ops;
pub mod models;
mod ops;
pub mod stand_in;
mod toys;

pub use bench::{Bench, Case, cases};
pub use compare::{close, near, rounded, same};
pub use cuda_ops::SUITE;
pub use models::registry;
pub use ops::SuiteOps;
pub use toys::ThreeInputs;

/// Calls a macro with every case, by group: `callback! { group { name, name, } group { name, } }`.
#[macro_export]
macro_rules! each_case {
    ($callback:ident) => {
        $callback! {
            operations {
                memory_is_uploaded_copied_zeroed_and_downloaded,
                an_upload_is_done_with_its_source_even_if_that_is_pinned,
                pinned_memory_is_zero_and_aligned_and_carries_block_and_signal,
                ranges_are_checked_before_anything_is_touched,
                events_order_two_streams,
                a_forked_stream_that_joins_again_is_part_of_the_capture,
                operations_are_counted_per_thread_and_device,
            }
            capture {
                invariant_15_largest_first_region_before_whole_the_same_every_time,
                nothing_runs_during_a_capture,
                pitfalls_07_and_15_padding_touches_no_live_page_and_captures_change_no_state,
                a_graph_is_head_body_tail,
                invariant_03_a_graph_keeps_the_memory_that_it_recorded,
                invariant_08_one_failed_capture_costs_one_bucket,
                invariant_09_a_panic_is_an_error_of_its_bucket,
                invariant_09_a_panic_whose_payload_panics_is_an_error_too,
                pitfall_21_first_use_work_happens_in_the_warm_up,
                pitfall_23_a_destructor_in_a_capture_does_not_break_it,
                invariant_14_a_graph_dropped_inside_a_forward_does_not_break_its_capture,
                pitfall_26_the_ledger_has_the_largest_bucket_once,
            }
            forbidden {
                pitfall_17_a_launch_on_another_stream_is_found_at_capture,
                pitfall_19_work_of_another_thread_does_not_break_the_capture,
                pitfall_20_what_a_region_may_not_do_is_named_with_the_region,
            }
            replay {
                replays_and_eager_calls_give_the_numbers_of_a_plain_loop,
                a_replay_equals_eager_to_the_bit_for_every_real_size_of_every_bucket,
                every_size_is_replayed_in_the_smallest_bucket_that_holds_it,
                a_replay_of_host_inputs_is_one_operation_whatever_its_size,
                a_replay_copies_each_device_input_and_launches,
                a_packed_region_is_chosen_by_tokens_and_requests,
                a_whole_forward_replays_and_falls_back,
                a_batched_forward_replays_its_own_lengths_only,
                a_node_replays_its_whole_forward_and_runs_its_region_inside_an_eager_one,
                a_replay_for_more_requests_than_its_bucket_is_an_error,
            }
            staging {
                host_inputs_of_every_element_rank_and_axis_arrive_whole,
                device_inputs_of_every_element_and_rank_arrive_whole,
                device_inputs_may_be_given_as_host_data,
                a_wired_input_copies_nothing,
                sizes_that_do_not_fit_are_refused_before_anything_is_written,
                host_data_longer_than_it_says_overwrites_no_held_output,
                an_input_that_is_named_twice_is_an_error,
            }
            padding {
                invariant_01_padded_rows_hold_exactly_the_pad,
                pitfall_01_rows_of_an_earlier_larger_batch_do_not_stay_in_the_tail,
                host_inputs_are_padded_with_zeros,
                host_inputs_are_padded_with_their_last_row,
                host_inputs_are_padded_with_a_value,
                device_inputs_are_padded_with_zeros,
                device_inputs_are_padded_with_their_last_row,
                device_inputs_are_padded_with_a_value,
                outputs_of_real_rows_do_not_depend_on_what_padding_holds,
                invariant_01_padded_rows_hold_what_the_policy_says,
                a_graph_pads_by_the_row_count_of_each_replay,
                ranges_of_a_pad_are_checked,
            }
            leases {
                invariant_04_a_held_output_is_written_by_nobody,
                pitfall_10_a_held_output_is_not_overwritten_by_the_next_replay,
                results_that_are_dropped_untaken_are_free,
                a_detached_output_is_a_copy,
                invariant_04_wires_carry_outputs_without_a_copy_and_hold_them,
                invariant_04_a_staged_step_holds_the_output_that_it_reads_in_place,
                a_leased_slot_is_refused_by_name_and_comes_back,
            }
            fallbacks {
                invariant_10_no_fit_is_a_typed_reason_and_counted,
                pitfall_29_a_missing_bucket_is_told_counted_and_refused_in_strict_mode,
                forced_eager_calls_are_no_misses_in_strict_mode,
                a_nodes_steps_can_be_forced_to_run_eagerly,
                a_failed_bucket_falls_to_a_larger_one,
                when_every_capture_failed_the_reason_says_so,
                a_captured_walk_that_no_forward_names_runs_eagerly_too,
                lengths_whose_sum_wraps_fit_no_bucket,
            }
            slots {
                the_next_step_is_staged_while_one_is_held,
                each_slot_has_graphs_and_buffers_of_its_own,
                a_node_that_plans_ahead_has_two_slots_and_steps_in_turn,
                a_step_that_was_planned_for_another_slot_is_not_staged,
            }
            resources {
                a_step_is_the_same_captured_and_eager,
                padding_touches_no_page_of_a_live_request,
                a_step_short_of_pages_is_refused_and_reserves_nothing,
                a_step_that_is_dropped_is_rolled_back,
                a_capture_that_writes_past_its_padding_rows_stops_the_engine,
                the_same_seed_gives_the_same_text_alone_and_batched_captured_and_eager,
                two_replays_draw_different_numbers_and_padding_draws_none,
            }
            plugins {
                llama_piecewise_gives_the_reference_captured_and_eager,
                llama_block_loop_gives_the_reference_captured_and_eager,
                digits_gives_the_reference_captured_and_eager,
            }
        }
    };
}

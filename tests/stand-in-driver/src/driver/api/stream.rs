//! Streams and their capture.
use crate::driver::abi::{Handle, HostFn, Out};
use crate::driver::capture::Mode;
use crate::driver::codes::{Code, Result};
use crate::driver::op::Op;
use crate::driver::probe::driver_functions;
use crate::driver::state::enter;
use crate::driver::stream::Stream;
use std::ffi::{c_int, c_uint};

/// `CU_STREAM_NON_BLOCKING`.
const NON_BLOCKING: c_uint = 1;

driver_functions! {
    fn cuStreamCreate(stream: Out<Handle>, flags: c_uint) {
        create(&stream, flags)
    }

    fn cuStreamCreateWithPriority(stream: Out<Handle>, flags: c_uint, _priority: c_int) {
        create(&stream, flags)
    }

    fn cuStreamDestroy_v2(stream: Handle) {
        let (mut state, context) = enter()?;
        let key = state.stream_key(context, stream)?;
        if state.stream(key)?.implicit {
            return Err(Code::INVALID_HANDLE);
        }
        state.destroy_stream(key)
    }

    fn cuStreamSynchronize(stream: Handle) {
        let (mut state, context) = enter()?;
        let key = state.stream_key(context, stream)?;
        state.check_not_capturing(key, "a wait for the end")?;
        state.check_unsafe_call("cuStreamSynchronize")?;
        state.synchronise(key)
    }

    fn cuStreamQuery(stream: Handle) {
        let (mut state, context) = enter()?;
        let key = state.stream_key(context, stream)?;
        state.check_not_capturing(key, "a query")?;
        state.check_unsafe_call("cuStreamQuery")?;
        state.poll(key, u64::MAX)
    }

    fn cuStreamWaitEvent(stream: Handle, event: Handle, flags: c_uint) {
        let (mut state, context) = enter()?;
        if flags != 0 {
            return state.refuse(Code::NOT_SUPPORTED, "a wait for an event outside the capture as a node".into());
        }
        let key = state.stream_key(context, stream)?;
        state.wait_event(key, event)
    }

    fn cuLaunchHostFunc(stream: Handle, function: Option<HostFn>, data: Handle) {
        let (mut state, context) = enter()?;
        let function = function.ok_or(Code::INVALID_VALUE)?;
        let key = state.stream_key(context, stream)?;
        state.submit(key, Op::Host { function, data })
    }

    fn cuStreamBeginCapture_v2(stream: Handle, mode: c_uint) {
        let (mut state, context) = enter()?;
        let key = state.stream_key(context, stream)?;
        state.begin_capture(key, Mode::from_c(mode)?)
    }

    fn cuStreamEndCapture(stream: Handle, graph: Out<Handle>) {
        let (mut state, context) = enter()?;
        let key = state.stream_key(context, stream)?;
        match state.end_capture(key) {
            Ok(handle) => graph.set(handle),
            Err(code) => {
                graph.set(0)?;
                Err(code)
            }
        }
    }

    fn cuStreamIsCapturing(stream: Handle, status: Out<c_uint>) {
        let (mut state, context) = enter()?;
        let key = state.stream_key(context, stream)?;
        state.check_legacy(key)?;
        let capture = state.stream(key)?.capture.and_then(|capture| state.captures.get(&capture));
        status.set(capture.map_or(0, |capture| 1 + c_uint::from(capture.invalid)))
    }

    fn cuStreamGetCaptureInfo_v2(
        stream: Handle,
        status: Out<c_uint>,
        id: Out<u64>,
        graph: Out<Handle>,
        nodes: Out<*const Handle>,
        count: Out<usize>,
    ) {
        capture_info(stream, &Info { status, id, graph, nodes, count })
    }

    fn cuStreamGetCaptureInfo_v3(
        stream: Handle,
        status: Out<c_uint>,
        id: Out<u64>,
        graph: Out<Handle>,
        nodes: Out<*const Handle>,
        edges: Out<Handle>,
        count: Out<usize>,
    ) {
        edges.set_if_wanted(0);
        capture_info(stream, &Info { status, id, graph, nodes, count })
    }

    /// Managed memory does not exist here, and attaching it cannot be captured anywhere.
    fn cuStreamAttachMemAsync(stream: Handle, _pointer: u64, _bytes: usize, _flags: c_uint) {
        let (mut state, context) = enter()?;
        let key = state.stream_key(context, stream)?;
        state.check_not_capturing(key, "an attachment of memory")?;
        Err(Code::NOT_SUPPORTED)
    }
}

fn create(stream: &Out<Handle>, flags: c_uint) -> Result {
    let (mut state, context) = enter()?;
    if flags & !NON_BLOCKING != 0 {
        return Err(Code::INVALID_VALUE);
    }
    let handle = state.new_handle();
    state.streams.insert(handle, Stream::new(context, flags & NON_BLOCKING == 0, false));
    stream.set(handle)
}

struct Info {
    status: Out<c_uint>,
    id: Out<u64>,
    graph: Out<Handle>,
    nodes: Out<*const Handle>,
    count: Out<usize>,
}

fn capture_info(stream: Handle, info: &Info) -> Result {
    let (mut state, context) = enter()?;
    let key = state.stream_key(context, stream)?;
    state.check_legacy(key)?;
    let handle = state.stream(key)?.capture;
    let Some((handle, capture)) = handle.and_then(|it| Some((it, state.captures.get_mut(&it)?))) else {
        return info.status.set(0);
    };
    let tail = capture.tails.get(&key).into_iter().flatten();
    capture.shown = tail.map(|node| capture.graph.nodes[*node].handle).collect();
    info.status.set(1 + c_uint::from(capture.invalid))?;
    info.id.set_if_wanted(handle as u64);
    info.graph.set_if_wanted(capture.graph_handle);
    info.nodes.set_if_wanted(capture.shown.as_ptr());
    info.count.set_if_wanted(capture.shown.len());
    Ok(())
}

//! Inputs and outputs.

use proc_macro2::Ident;
use syn::{Expr, ExprLit, ExprUnary, Lit, Path, UnOp, ext::IdentExt, parse_quote, spanned::Spanned};

use super::{Elem, Elements, Io, check_fixed, plain};
use crate::{
    attr::{IoAttr, PadAttr},
    mistakes::{Mistakes, allowed, closest, hint},
    names,
    text::{list_text, text},
};

pub(super) const ELEMENTS: [&str; 7] = ["f32", "f16", "bf16", "i32", "i64", "u32", "u8"];
const MAX_RANK: usize = 4;

pub(super) fn check_ios(
    word: &str,
    ios: Vec<IoAttr>,
    elements: Option<&Elements>,
    mistakes: &mut Mistakes,
) -> Vec<Io> {
    let mut checked: Vec<Io> = Vec::new();
    for io in ios {
        let twice = checked.iter().any(|before| before.name.unraw() == io.name.unraw());
        if twice {
            mistakes.at(io.name.span(), format!("{word} `{}` is declared twice", io.name.unraw()));
        }
        let io = check_io(word, io, elements, mistakes);
        checked.extend((!twice).then_some(io));
    }
    checked
}

fn check_io(word: &str, io: IoAttr, elements: Option<&Elements>, mistakes: &mut Mistakes) -> Io {
    let name = io.name.unraw().to_string();
    let before = mistakes.count();
    let generic = |elem: &&Path| elements.is_some_and(|e| elem.is_ident(&e.param.ident));
    let elem = match io.elem.as_ref().filter(generic).and_then(Path::get_ident) {
        Some(param) => Some(Elem(param.clone())),
        None => io.elem.and_then(|elem| check_elem(&format!("{word} `{name}`"), &elem, mistakes)),
    };
    let known = mistakes.count() == before;
    if let Some((at, dims)) = &io.dims
        && !(1..=MAX_RANK).contains(&dims.len())
    {
        let rank = dims.len();
        mistakes.at(*at, format!("{word} `{name}` has rank {rank}: 1 to {MAX_RANK} dimensions are allowed"));
    }
    let host = io.host.is_some();
    // What a broken declaration most likely has.
    let dims = io.dims.map(|(_, dims)| dims).filter(|dims| !dims.is_empty());
    let dims = dims.unwrap_or_else(|| vec![parse_quote!(tokens), parse_quote!(0)]);
    let axis = check_axes(word, &name, host, &dims, mistakes);
    if let Some(wire) = &io.wire {
        if host {
            let message = "a wire is device memory; leave out `host` or `wire`";
            mistakes.at(wire.at, format!("`wire` on host input `{name}`: {message}"));
        }
        check_fixed("a wire's index may not name it", &wire.index, mistakes);
    }
    if let (Some(PadAttr::Value(value)), Some(elem), true) = (&io.pad, &elem, known) {
        let all =
            elements.filter(|e| e.param.ident == elem.0).map_or(std::slice::from_ref(elem), |e| &e.list);
        for elem in all {
            let before = mistakes.count();
            check_value(&name, elem, value, mistakes);
            if mistakes.count() > before {
                break;
            }
        }
    }
    Io {
        elem: elem.unwrap_or_else(|| Elem(Ident::new("f32", io.name.span()))),
        name: io.name,
        text: list_text(&dims),
        dims,
        axis,
        host,
        pad: io.pad.unwrap_or(PadAttr::Zero),
        wire: io.wire.map(|w| (w.name.unraw().to_string(), w.index)),
    }
}

/// `owner` is what has the element.
pub(super) fn check_elem(owner: &str, elem: &Path, mistakes: &mut Mistakes) -> Option<Elem> {
    if let Some(i) = elem.get_ident().filter(|i| ELEMENTS.iter().any(|e| *i == e)) {
        return Some(Elem(i.clone()));
    }
    let got = text(elem);
    // The element at the end of a path, or one of the same kind.
    let last = elem.segments.last().map(|s| s.ident.to_string()).unwrap_or_default();
    let alike: Vec<_> = ELEMENTS.into_iter().filter(|e| last.starts_with(&e[..1])).collect();
    let close = closest(&last, &alike);
    let message = format!("unknown element `{got}` of {owner}: {}{}", allowed(&ELEMENTS), hint(close));
    mistakes.on(elem, message);
    close.or(alike.first().copied()).map(|k| Elem(Ident::new(k, elem.span())))
}

/// The axis that names `tokens` or `bs`: at most one, and outside the host side the first.
fn check_axes(word: &str, name: &str, host: bool, dims: &[Expr], mistakes: &mut Mistakes) -> usize {
    let mut axis = None;
    for (i, dim) in dims.iter().enumerate() {
        let Some(size) = names::varying(dim) else { continue };
        let why = match axis {
            _ if !host && i > 0 => {
                let side = if word == "input" { "device input" } else { "output" };
                format!("only the first axis of {side} `{name}` may name it (this is axis {i})")
            }
            Some(first) => {
                let already = format!("axis {first} does already (this is axis {i})");
                format!("one axis of host input `{name}` may name `tokens` or `bs`, and {already}")
            }
            None => {
                axis = Some(i);
                continue;
            }
        };
        mistakes.at(size.span(), format!("`{size}` varies from call to call: {why}"));
    }
    axis.unwrap_or(0)
}

/// A literal pad value is of the element's kind; other expressions are left to the compiler.
fn check_value(name: &str, elem: &Elem, value: &Expr, mistakes: &mut Mistakes) {
    let (negative, lit) = match plain(value) {
        Expr::Unary(ExprUnary { op: UnOp::Neg(_), expr, .. }) => (true, plain(expr)),
        other => (false, other),
    };
    let Expr::Lit(ExprLit { lit, .. }) = lit else { return };
    let elem = elem.0.to_string();
    let (wanted, fits) = match (elem.as_str(), lit) {
        ("f32" | "f16" | "bf16", lit) => ("a float, such as `value(1.0)`", matches!(lit, Lit::Float(_))),
        ("u8", Lit::Byte(_)) => return,
        ("u32" | "u8", lit) => {
            ("an integer of at least 0, such as `value(1)`", matches!(lit, Lit::Int(_)) && !negative)
        }
        (_, lit) => ("an integer, such as `value(-1)`", matches!(lit, Lit::Int(_))),
    };
    if !fits {
        let got = text(value);
        let message =
            format!("`value({got})` of input `{name}`: its element is {elem}, so the value is {wanted}");
        mistakes.on(value, message);
    }
}

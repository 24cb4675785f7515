//! From attributes as written to a region that can be generated; every mistake is recorded.

use proc_macro2::{Ident, Span};
use syn::{
    Data, DeriveInput, Expr, ExprLit, ExprUnary, Fields, GenericParam, Lit, LitStr, Path, Type, TypeParam,
    UnOp, ext::IdentExt, spanned::Spanned,
};

use crate::{
    attr::{Attrs, IoAttr, PadAttr, RegionAttr, Sizes},
    mistakes::{Mistakes, closest, listed},
    names,
    text::{list_text, text},
};

/// A region without mistakes.
pub(crate) struct Region {
    pub(crate) krate: Option<Path>,
    pub(crate) node: LitStr,
    pub(crate) name: LitStr,
    /// The author's sizes as text.
    pub(crate) buckets: String,
    pub(crate) kind: Kind,
    pub(crate) batch_sizes: Option<Vec<Expr>>,
    pub(crate) compile: Option<bool>,
    pub(crate) lease_before_step: Option<bool>,
    pub(crate) on: On,
    pub(crate) inputs: Vec<Io>,
    pub(crate) outputs: Vec<Io>,
    pub(crate) names_bs: bool,
}

pub(crate) enum Kind {
    Packed(Vec<Expr>),
    Batched(Expr),
}

/// The backend, and what it is registered for.
pub(crate) enum On {
    /// The type parameter; the crate's backends.
    Crate(TypeParam),
    /// The type parameter; these backends.
    These(TypeParam, Vec<Type>),
    /// One backend, no type parameter.
    One(Type),
}

/// One input or output.
pub(crate) struct Io {
    pub(crate) name: Ident,
    pub(crate) elem: Elem,
    pub(crate) dims: Vec<Expr>,
    pub(crate) text: String,
    /// The varying axis; the first where none varies.
    pub(crate) axis: usize,
    pub(crate) host: bool,
    pub(crate) pad: Pad,
    pub(crate) wire: Option<(String, Expr)>,
}

pub(crate) enum Pad {
    Zero,
    RepeatLast,
    Value(Expr),
}

/// An element: the author's token, whose text is one of [`ELEMENTS`].
pub(crate) struct Elem(pub(crate) Ident);

const ELEMENTS: [&str; 7] = ["f32", "f16", "bf16", "i32", "i64", "u32", "u8"];
const MAX_RANK: usize = 4;

/// The region, or `None` after a mistake.
pub(crate) fn check(item: &DeriveInput, attrs: Attrs, mistakes: &mut Mistakes) -> Option<Region> {
    check_struct(item, mistakes);
    let Attrs { region, inputs, outputs } = attrs;
    let on = check_backend(item, &region, mistakes);
    let inputs = check_ios("input", inputs, mistakes);
    let outputs = check_ios("output", outputs, mistakes);
    let here = region.at.unwrap_or(item.ident.span());
    if region.at.is_none() {
        let hint = "`#[region(node = \"..\", name = \"..\", packed(total_tokens = [..]))]`";
        mistakes.at(here, format!("`{}` has no {hint}", item.ident));
        return None;
    }
    let node = check_name("node", &region.node, &region, mistakes);
    let name = check_name("name", &region.name, &region, mistakes);
    let kind = check_kind(&region, here, mistakes);
    if let Some(sizes) = &region.batch_sizes {
        check_sizes("batch_sizes", sizes, mistakes);
    }
    let (node, name, kind, on) = (node?, name?, kind?, on?);
    let mut buckets = match &kind {
        Kind::Packed(totals) => format!("packed(total_tokens = {})", list_text(totals)),
        Kind::Batched(seq_len) => format!("batched(seq_len = {})", text(seq_len)),
    };
    if let Some(sizes) = &region.batch_sizes {
        buckets += &format!(", batch_sizes = {}", list_text(&sizes.list));
    }
    let names_bs = inputs.iter().chain(&outputs).flat_map(|io| &io.dims).any(names::names_bs);
    Some(Region {
        krate: region.krate,
        node,
        name,
        buckets,
        kind,
        batch_sizes: region.batch_sizes.map(|s| s.list),
        compile: region.compile.map(|b| b.value),
        lease_before_step: region.lease_before_step.map(|b| b.value),
        on,
        inputs,
        outputs,
        names_bs,
    })
}

fn check_struct(item: &DeriveInput, mistakes: &mut Mistakes) {
    let (what, why) = match &item.data {
        Data::Struct(data) => match data.fields {
            Fields::Unnamed(_) => {
                ("a tuple struct", "; give its fields names, which dimensions then use (`self.hidden`)")
            }
            Fields::Named(_) | Fields::Unit => return,
        },
        Data::Enum(_) => ("an enum", ""),
        Data::Union(_) => ("a union", ""),
    };
    let message =
        format!("PiecewiseRegion is for structs with named fields: `{}` is {what}{why}", item.ident);
    mistakes.at(item.ident.span(), message);
}

fn check_backend(item: &DeriveInput, region: &RegionAttr, mistakes: &mut Mistakes) -> Option<On> {
    let ty = &item.ident;
    let mut types = Vec::new();
    for param in &item.generics.params {
        match param {
            GenericParam::Type(t) => types.push(t),
            GenericParam::Lifetime(l) => mistakes.at(
                l.lifetime.span(),
                format!("`{ty}` has the lifetime parameter `{}`: a region outlives every call, so it owns what it uses (weights in an `Arc`)", l.lifetime),
            ),
            GenericParam::Const(c) => mistakes.at(
                c.ident.span(),
                format!("`{ty}` has the const parameter `{}`: make it a field, since regions are registered without parameters other than the backend", c.ident),
            ),
        }
    }
    for extra in types.iter().skip(1) {
        mistakes.at(
            extra.ident.span(),
            format!(
                "`{ty}` has {} type parameters: only one is allowed, the backend (here `{}`)",
                types.len(),
                types[0].ident
            ),
        );
    }
    match (types.first(), &region.backend, &region.backends) {
        (Some(t), Some((at, _)), _) => {
            mistakes.at(*at, format!("`backend` beside the type parameter `{}`: one of the two names the backend; for a generic region, list them with `backends(..)`", t.ident));
            None
        }
        (None, Some(_), Some((at, _))) => {
            mistakes.at(*at, "`backends(..)` beside `backend`: a region without a type parameter runs on the one backend that `backend` names");
            None
        }
        (None, None, Some((at, _))) => {
            mistakes.at(*at, format!("`backends(..)` lists backends for a type parameter, and `{ty}` has none: write `struct {ty}<B: Ops>`, or `backend = Host`"));
            None
        }
        (None, Some((_, one)), None) => Some(On::One(one.clone())),
        (None, None, None) => {
            // Any other parameter, or a malformed `backend`, has its own message.
            if item.generics.params.is_empty() && !region.seen.iter().any(|k| k.starts_with("backend")) {
                mistakes.at(ty.span(), format!("no backend named: write `struct {ty}<B: Ops>`, where `Ops` is your trait on top of `Backend`, or `#[region(backend = Host)]`"));
            }
            None
        }
        (Some(t), None, backends) => {
            if t.bounds.is_empty() && item.generics.where_clause.is_none() {
                mistakes.at(
                    t.ident.span(),
                    format!("`{0}` has no bound: write `{0}: Backend`, or your trait on top of it", t.ident),
                );
            }
            match backends {
                Some((at, list)) if list.is_empty() => {
                    mistakes.at(*at, "`backends()` is empty: name at least one backend, or leave it out for the crate's `backends!` list");
                    None
                }
                Some((_, list)) => Some(On::These((*t).clone(), list.clone())),
                None => Some(On::Crate((*t).clone())),
            }
        }
    }
}

fn check_name(
    key: &str,
    given: &Option<LitStr>,
    region: &RegionAttr,
    mistakes: &mut Mistakes,
) -> Option<LitStr> {
    let Some(given) = given else {
        if !region.seen.iter().any(|k| k == key) {
            let at = region.at.unwrap_or_else(Span::call_site);
            mistakes.at(at, format!("`{key}` is missing: write `#[region({key} = \"..\")]`"));
        }
        return None;
    };
    let name = given.value();
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-".contains(c);
    if name.is_empty() {
        mistakes.at(given.span(), format!("`{key}` is empty: tables, messages and bucket files need a name"));
    } else if let Some(c) = name.chars().find(|c| !allowed(*c)) {
        mistakes.at(
            given.span(),
            format!("`{key}` has the character {c:?}: allowed are a to z, 0 to 9, `_` and `-`"),
        );
    }
    Some(given.clone())
}

fn check_kind(region: &RegionAttr, here: Span, mistakes: &mut Mistakes) -> Option<Kind> {
    let seen = |key: &str| region.seen.iter().any(|k| k == key);
    if seen("packed") && seen("batched") {
        let at = region.batched.as_ref().map_or(here, |(at, _)| *at);
        mistakes.at(
            at,
            "both `packed` and `batched`: requests either share a token budget or have one length each",
        );
        return None;
    }
    if !seen("packed") && !seen("batched") {
        mistakes.at(here, "no sizes: add `packed(total_tokens = [..])` or `batched(seq_len = ..)`");
        return None;
    }
    match (&region.packed, &region.batched) {
        (Some((at, None)), _) => {
            mistakes.at(*at, "`packed` needs the token totals to capture: `packed(total_tokens = [16, 64])`")
        }
        (_, Some((at, None))) => {
            mistakes.at(*at, "`batched` needs the length of a request: `batched(seq_len = 16)`")
        }
        (Some((_, Some(totals))), _) => {
            check_sizes("total_tokens", totals, mistakes);
            return Some(Kind::Packed(totals.list.clone()));
        }
        (_, Some((_, Some(seq_len)))) => {
            if integer(seq_len) == Some(0) {
                mistakes.at(seq_len.span(), "`seq_len` is 0: a request has at least one token");
            }
            check_fixed("seq_len", seq_len, mistakes);
            return Some(Kind::Batched(seq_len.clone()));
        }
        // A malformed list has its own message.
        (None, None) => {}
    }
    None
}

fn check_sizes(key: &str, sizes: &Sizes, mistakes: &mut Mistakes) {
    if sizes.list.is_empty() {
        mistakes.at(sizes.at, format!("`{key}` is empty: name at least one size"));
    }
    let mut before = Vec::new();
    for size in &sizes.list {
        check_fixed(key, size, mistakes);
        let Some(n) = integer(size) else { continue };
        if n == 0 {
            mistakes.at(size.span(), format!("`{key}` has the size 0: a bucket holds at least one"));
        } else if before.contains(&n) {
            mistakes.at(size.span(), format!("`{key}` has the size {n} twice"));
        }
        before.push(n);
    }
}

/// Sizes are known before any call.
fn check_fixed(key: &str, expr: &Expr, mistakes: &mut Mistakes) {
    if let Some(i) = names::varying(expr) {
        mistakes.at(i.span(), format!("`{i}` varies from call to call: `{key}` may not name it"));
    }
}

fn integer(expr: &Expr) -> Option<u64> {
    match expr {
        Expr::Lit(ExprLit { lit: Lit::Int(n), .. }) => n.base10_parse().ok(),
        _ => None,
    }
}

fn check_ios(word: &str, ios: Vec<IoAttr>, mistakes: &mut Mistakes) -> Vec<Io> {
    let mut names: Vec<Ident> = Vec::new();
    let mut checked = Vec::new();
    for io in ios {
        if names.iter().any(|n| n.unraw() == io.name.unraw()) {
            mistakes.at(io.name.span(), format!("{word} `{}` is declared twice", io.name.unraw()));
        }
        names.push(io.name.clone());
        checked.extend(check_io(word, io, mistakes));
    }
    checked
}

fn check_io(word: &str, io: IoAttr, mistakes: &mut Mistakes) -> Option<Io> {
    let name = io.name.unraw().to_string();
    let elem = check_elem(word, &name, &io.elem, mistakes);
    if io.dims.is_empty() || io.dims.len() > MAX_RANK {
        let message =
            format!("{word} `{name}` has rank {}: 1 to {MAX_RANK} dimensions are allowed", io.dims.len());
        mistakes.at(io.dims_at, message);
    }
    let host = io.host.is_some();
    let axis = check_axes(word, &name, host, &io.dims, mistakes);
    if let (Some(wire), true) = (&io.wire, host) {
        mistakes.at(
            wire.at,
            format!("`wire` on host input `{name}`: a wire is device memory; leave out `host` or `wire`"),
        );
    }
    if let Some(wire) = &io.wire {
        check_fixed("a wire's index", &wire.index, mistakes);
    }
    let elem = elem?;
    let pad = match io.pad {
        None | Some((_, PadAttr::Zero)) => Pad::Zero,
        Some((_, PadAttr::RepeatLast)) => Pad::RepeatLast,
        Some((_, PadAttr::Value(value))) => {
            check_value(&name, &elem, &value, mistakes);
            Pad::Value(value)
        }
    };
    Some(Io {
        name: io.name,
        elem,
        text: list_text(&io.dims),
        dims: io.dims,
        axis,
        host,
        pad,
        wire: io.wire.map(|w| (w.name.unraw().to_string(), w.index)),
    })
}

fn check_elem(word: &str, name: &str, elem: &Path, mistakes: &mut Mistakes) -> Option<Elem> {
    if let Some(i) = elem.get_ident().filter(|i| ELEMENTS.iter().any(|e| *i == e)) {
        return Some(Elem(i.clone()));
    }
    let got = text(elem);
    let hint = closest(&got, &ELEMENTS).map(|k| format!("; did you mean `{k}`?")).unwrap_or_default();
    let message =
        format!("unknown element `{got}` of {word} `{name}`: allowed are {}{hint}", listed(&ELEMENTS));
    mistakes.at(elem.span(), message);
    None
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
            Some(first) => format!(
                "one axis of host input `{name}` may name `tokens` or `bs`, and axis {first} does already (this is axis {i})"
            ),
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
    let (negative, lit) = match value {
        Expr::Unary(ExprUnary { op: UnOp::Neg(_), expr, .. }) => (true, &**expr),
        other => (false, other),
    };
    let Expr::Lit(ExprLit { lit, .. }) = lit else { return };
    let elem = elem.0.to_string();
    let unsigned = elem.starts_with('u');
    let (wanted, fits) = match elem.contains('f') {
        true => ("a float, such as `value(1.0)`", matches!(lit, Lit::Float(_))),
        false if unsigned => {
            ("an integer of at least 0, such as `value(1)`", matches!(lit, Lit::Int(_)) && !negative)
        }
        false => ("an integer, such as `value(-1)`", matches!(lit, Lit::Int(_))),
    };
    if !fits {
        mistakes.at(
            value.span(),
            format!(
                "`value({})` of input `{name}`: its element is {elem}, so the value is {wanted}",
                text(value)
            ),
        );
    }
}

//! From attributes as written to a region that can be generated; every mistake is recorded.

mod elements;
mod io;

use proc_macro2::{Ident, Span};
use syn::{
    Data, DeriveInput, Expr, ExprLit, Fields, GenericParam, Lit, LitStr, Path, Type, TypeParam, parse_quote,
};

use crate::{
    attr::{Attrs, PadAttr, RegionAttr, Sizes},
    expand::core_path,
    mistakes::Mistakes,
    names,
    text::{list_text, text},
};

pub(crate) use elements::Elements;

/// A region. After a mistake it holds guesses where nothing is known, good for stubs only.
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
    /// `None` where no backend is named, which is a mistake.
    pub(crate) on: Option<On>,
    /// The type parameter that is an element, if there is one.
    pub(crate) elements: Option<Elements>,
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
    pub(crate) pad: PadAttr,
    pub(crate) wire: Option<(String, Expr)>,
}

/// An element: the author's token, whose text is one of `io::ELEMENTS` or the parameter of [`Elements`].
pub(crate) struct Elem(pub(crate) Ident);

/// The region that the attributes describe.
pub(crate) fn check(item: &DeriveInput, attrs: Attrs, mistakes: &mut Mistakes) -> Region {
    check_struct(item, mistakes);
    let Attrs { region, inputs, outputs } = attrs;
    let declared = inputs.iter().chain(&outputs).filter_map(|io| io.elem.as_ref());
    let elements = elements::check_elements(item, &region, declared, mistakes);
    let on = check_backend(item, &region, elements.as_ref(), mistakes);
    let inputs = io::check_ios("input", inputs, elements.as_ref(), mistakes);
    let outputs = io::check_ios("output", outputs, elements.as_ref(), mistakes);
    let mut kind = Kind::Packed(Vec::new());
    match region.at {
        None => {
            let hint = "`#[region(node = \"..\", name = \"..\", packed(total_tokens = [..]))]`";
            mistakes.at(item.ident.span(), format!("`{}` has no {hint}", item.ident));
        }
        Some(_) if region.unreadable => {}
        Some(here) => {
            check_name("node", &region.node, here, &region.seen, mistakes);
            check_name("name", &region.name, here, &region.seen, mistakes);
            if let Some(known) = check_kind(&region, here, mistakes) {
                kind = known;
            }
        }
    }
    if let Some(sizes) = &region.batch_sizes {
        check_sizes("batch_sizes", sizes, mistakes);
    }
    let mut buckets = match &kind {
        Kind::Packed(totals) => format!("packed(total_tokens = {})", list_text(totals)),
        Kind::Batched(seq_len) => format!("batched(seq_len = {})", text(seq_len)),
    };
    if let Some(sizes) = &region.batch_sizes {
        buckets += &format!(", batch_sizes = {}", list_text(&sizes.list));
    }
    let names_bs = inputs.iter().chain(&outputs).flat_map(|io| &io.dims).any(names::names_bs);
    let unknown = || LitStr::new("", item.ident.span());
    Region {
        krate: region.krate,
        node: region.node.unwrap_or_else(unknown),
        name: region.name.unwrap_or_else(unknown),
        buckets,
        kind,
        batch_sizes: region.batch_sizes.map(|s| s.list),
        compile: region.compile.map(|b| b.value),
        lease_before_step: region.lease_before_step.map(|b| b.value),
        on,
        elements,
        inputs,
        outputs,
        names_bs,
    }
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

fn check_backend(
    item: &DeriveInput,
    region: &RegionAttr,
    elements: Option<&Elements>,
    mistakes: &mut Mistakes,
) -> Option<On> {
    let ty = &item.ident;
    let (mut types, mut others) = (Vec::new(), false);
    for param in &item.generics.params {
        match param {
            GenericParam::Type(t) if elements.is_some_and(|e| e.param.ident == t.ident) => {}
            GenericParam::Type(t) => types.push(t),
            GenericParam::Lifetime(l) => {
                others = true;
                let message = "a region outlives every call, so it owns what it uses (weights in an `Arc`)";
                let got = format!("`{ty}` has the lifetime parameter `{}`", l.lifetime);
                mistakes.at(l.lifetime.span(), format!("{got}: {message}"));
            }
            GenericParam::Const(c) => {
                others = true;
                let message = "make it a field; a region's parameters are its backend and an element";
                mistakes
                    .at(c.ident.span(), format!("`{ty}` has the const parameter `{}`: {message}", c.ident));
            }
        }
    }
    for extra in types.iter().skip(1) {
        mistakes.at(
            extra.ident.span(),
            format!(
                "`{ty}` has the type parameter `{}` beside its backend `{}`: {}",
                extra.ident,
                types[0].ident,
                elements::wanted(&extra.ident)
            ),
        );
    }
    // Without a bound, the one that it certainly lacks.
    let generic = |t: &TypeParam| {
        let mut t = t.clone();
        if t.bounds.is_empty() && item.generics.where_clause.is_none() {
            let core = core_path(region.krate.as_ref());
            t.bounds.push(parse_quote!(#core::Backend));
        }
        t
    };
    match (types.first(), &region.backend, &region.backends) {
        (Some(t), Some((at, _)), _) => {
            let message = "one of the two names the backend; a generic region lists its with `backends(..)`";
            mistakes.at(*at, format!("`backend` beside the type parameter `{}`: {message}", t.ident));
            Some(On::Crate(generic(t)))
        }
        (None, Some((_, one)), Some((at, _))) => {
            let message = "a region without a type parameter runs on the one backend that `backend` names";
            mistakes.at(*at, format!("`backends(..)` beside `backend`: {message}"));
            Some(On::One(one.clone()))
        }
        (None, None, Some((at, list))) => {
            let message = format!("write `struct {ty}<B: Ops>`, or `backend = Host`");
            mistakes
                .at(*at, format!("`backends(..)` is for a type parameter, and `{ty}` has none: {message}"));
            list.first().cloned().map(On::One)
        }
        (None, Some((_, one)), None) => Some(On::One(one.clone())),
        (None, None, None) => {
            // Any other parameter, or a malformed `backend`, has its own message.
            if !others && !region.seen.iter().any(|k| k.starts_with("backend")) {
                let message = format!(
                    "write `struct {ty}<B: Ops>`, where `Ops` is your trait on top of `Backend`, or \
                     `#[region(backend = Host)]`"
                );
                mistakes.at(ty.span(), format!("no backend named: {message}"));
            }
            None
        }
        (Some(t), None, backends) => {
            if t.bounds.is_empty() && item.generics.where_clause.is_none() {
                let message = format!("write `{}: Backend`, or your trait on top of it", t.ident);
                mistakes.at(t.ident.span(), format!("`{}` has no bound: {message}", t.ident));
            }
            match backends {
                Some((at, list)) if list.is_empty() => {
                    let message = "name one, or leave it out for the crate's `backends!` list";
                    mistakes.at(*at, format!("`backends()` is empty: {message}"));
                    Some(On::Crate(generic(t)))
                }
                Some((_, list)) => Some(On::These(generic(t), list.clone())),
                None => Some(On::Crate(generic(t))),
            }
        }
    }
}

fn check_name(key: &str, given: &Option<LitStr>, here: Span, seen: &[String], mistakes: &mut Mistakes) {
    let Some(given) = given else {
        // A malformed one has its own message.
        if !seen.iter().any(|k| k == key) {
            mistakes.at(here, format!("`{key}` is missing: write `#[region({key} = \"..\")]`"));
        }
        return;
    };
    let name = given.value();
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-".contains(c);
    if name.is_empty() {
        let message = "tables, messages and bucket files need a name";
        mistakes.at(given.span(), format!("`{key}` is empty: {message}"));
    } else if let Some(c) = name.chars().find(|c| !allowed(*c)) {
        let message = "allowed are a to z, 0 to 9, `_` and `-`";
        mistakes.at(given.span(), format!("`{key}` has the character {c:?}: {message}"));
    }
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
            mistakes.at(*at, "`packed` needs the totals to capture: `packed(total_tokens = [16, 64])`")
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
                mistakes.on(seq_len, "`seq_len` is 0: a request has at least one token");
            }
            check_fixed("`seq_len` may not name it", seq_len, mistakes);
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
        check_fixed(&format!("`{key}` may not name it"), size, mistakes);
        let Some(n) = integer(size) else { continue };
        if n == 0 {
            mistakes.on(size, format!("`{key}` has the size 0: a bucket holds at least one"));
        } else if before.contains(&n) {
            mistakes.on(size, format!("`{key}` has the size {n} twice"));
        }
        before.push(n);
    }
}

/// Sizes are known before any call.
fn check_fixed(why: &str, expr: &Expr, mistakes: &mut Mistakes) {
    if let Some(i) = names::varying(expr) {
        mistakes.at(i.span(), format!("`{i}` varies from call to call: {why}"));
    }
}

/// Without parentheses, and without the invisible ones around a fragment of a macro.
pub(crate) fn plain(expr: &Expr) -> &Expr {
    match expr {
        Expr::Group(e) => plain(&e.expr),
        Expr::Paren(e) => plain(&e.expr),
        expr => expr,
    }
}

fn integer(expr: &Expr) -> Option<u64> {
    match plain(expr) {
        Expr::Lit(ExprLit { lit: Lit::Int(n), .. }) => n.base10_parse().ok(),
        _ => None,
    }
}

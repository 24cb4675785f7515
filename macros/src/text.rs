//! Expressions as text: what a schema shows, whatever the author's spacing.

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};
use quote::ToTokens;

/// `[tokens, self.hidden]`.
pub(crate) fn list_text(items: &[impl ToTokens]) -> String {
    format!("[{}]", items.iter().map(text).collect::<Vec<_>>().join(", "))
}

/// An expression the way rustfmt would put it on one line, or close to it.
pub(crate) fn text(tokens: impl ToTokens) -> String {
    let mut out = Printer::default();
    out.stream(tokens.into_token_stream());
    out.text
}

#[derive(Default)]
struct Printer {
    text: String,
    /// What was printed last: decides whether the next token stands apart.
    last: Last,
    /// `<` of a `::<` that are still open.
    generics: usize,
}

#[derive(Clone, Copy, Default, PartialEq)]
enum Last {
    /// Nothing yet in this group: the next token touches the bracket.
    #[default]
    Open,
    /// A name, a literal, a closing bracket.
    Operand,
    /// A word after which `(` or `[` stands apart, and `-` or `*` is a prefix.
    Keyword,
    /// A binary operator, `,` or `;`: a space follows, and `-` or `*` is a prefix.
    Operator,
    /// The first half of a two-character operator, `.`, `::`, `!`, a prefix: the next token touches it.
    Glue,
}

impl Printer {
    fn stream(&mut self, tokens: TokenStream) {
        let mut tokens = tokens.into_iter().peekable();
        while let Some(token) = tokens.next() {
            match token {
                TokenTree::Ident(i) => {
                    let word = i.to_string();
                    let keyword = ["if", "else", "match", "in", "return", "as", "let", "mut", "move"]
                        .contains(&word.as_str());
                    self.put(&word, if keyword { Last::Keyword } else { Last::Operand });
                }
                TokenTree::Literal(l) => self.put(&l.to_string(), Last::Operand),
                TokenTree::Group(g) => self.group(g.delimiter(), g.stream()),
                TokenTree::Punct(p) => {
                    let joint =
                        p.spacing() == Spacing::Joint && matches!(tokens.peek(), Some(TokenTree::Punct(_)));
                    self.punct(p.as_char(), joint);
                }
            }
        }
    }

    /// A word: apart from the word or operator before it.
    fn put(&mut self, word: &str, last: Last) {
        if !matches!(self.last, Last::Open | Last::Glue) {
            self.text.push(' ');
        }
        self.text.push_str(word);
        self.last = last;
    }

    fn group(&mut self, delimiter: Delimiter, tokens: TokenStream) {
        let (open, close) = match delimiter {
            Delimiter::Parenthesis => ("(", ")"),
            Delimiter::Bracket => ("[", "]"),
            Delimiter::Brace => ("{", "}"),
            Delimiter::None => return self.stream(tokens),
        };
        if matches!(self.last, Last::Keyword | Last::Operator)
            || (self.last == Last::Operand && delimiter == Delimiter::Brace)
        {
            self.text.push(' ');
        }
        self.text.push_str(open);
        let inner = text(tokens);
        let braces = delimiter == Delimiter::Brace && !inner.is_empty();
        let space = if braces { " " } else { "" };
        self.text.push_str(&format!("{space}{inner}{space}{close}"));
        self.last = Last::Operand;
    }

    fn punct(&mut self, c: char, joint: bool) {
        let after_path = self.text.ends_with("::");
        match c {
            '.' | '?' | '\'' => self.touch(c, if c == '?' { Last::Operand } else { Last::Glue }),
            ',' | ';' => self.touch(c, Last::Operator),
            ':' if joint || self.text.ends_with(':') => self.touch(c, Last::Glue),
            ':' => self.touch(c, Last::Operator),
            '<' if after_path => {
                self.generics += 1;
                self.touch(c, Last::Glue);
            }
            '>' if self.generics > 0 => {
                self.generics -= 1;
                self.touch(c, Last::Operand);
            }
            '!' if !joint && self.last == Last::Operand => self.touch(c, Last::Glue),
            // A prefix: nothing stands before it that it could connect.
            _ if self.last != Last::Operand => {
                let second_half = self.last == Last::Glue && !joint && "=&|<>.".contains(c);
                self.put(&c.to_string(), if second_half { Last::Operator } else { Last::Glue });
            }
            _ => self.put(&c.to_string(), if joint { Last::Glue } else { Last::Operator }),
        }
    }

    fn touch(&mut self, c: char, last: Last) {
        self.text.push(c);
        self.last = last;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_read_as_the_author_wrote_them() {
        for written in [
            "tokens",
            "self.hidden",
            "bs + 1",
            "tokens * 2 + bs",
            "self.hidden / 2",
            "if bs > 4 { bs } else { tokens }",
            "Self::width()",
            "-1",
            "f32::NEG_INFINITY",
            "self.sizes[0] as usize",
            "size_of::<f32>() * bs",
            "(bs + 1) * -N",
            "usize::max(tokens, 3)",
            "bs << 2",
            "!flag && bs >= 4",
            "self.layers.len()",
            "my_dim!(3)",
            "crate::config::HEADS",
            "{ let x = 3; x }",
            "a == -1 || b != &c",
        ] {
            let tokens: TokenStream = written.parse().unwrap();
            assert_eq!(text(tokens), written);
        }
        let squeezed: TokenStream = "self . hidden*2+ bs".parse().unwrap();
        assert_eq!(text(squeezed), "self.hidden * 2 + bs");
    }
}

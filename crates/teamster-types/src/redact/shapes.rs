//! Tokens that are recognized by their shape alone.

use super::scan::{ScanSegment, is_word};
use super::values::is_mixed;
use TokenBody::{Capitals, Dotted, Letters, Path, Word};
use TokenCheck::{Length, Mark, Stretched};

/// The maximum length of a token that is examined before it is accepted, in bytes.
const LOOK: usize = 64;

/// The characters of a token after its prefix.
#[derive(Clone, Copy)]
enum TokenBody {
    /// Letters and digits.
    Letters,
    /// Capitals and digits.
    Capitals,
    /// Letters, digits, `_` and `-`.
    Word,
    /// The same and `.`.
    Dotted,
    /// The same and `/`.
    Path,
}

/// What distinguishes a token from a word that begins like it.
#[derive(Clone, Copy)]
enum TokenCheck {
    /// Its length alone.
    Length,
    /// A digit or a capital.
    Mark,
    /// Sixteen letters and digits, mixed, without a break.
    Stretched,
}

struct TokenShape {
    prefix: &'static str,
    body: TokenBody,
    least: usize,
    proof: TokenCheck,
}

const fn shape(
    prefix: &'static str,
    body: TokenBody,
    least: usize,
    proof: TokenCheck,
) -> TokenShape {
    TokenShape {
        prefix,
        body,
        least,
        proof,
    }
}

/// The known shapes. The first match decides, so a longer prefix comes before a shorter one.
#[rustfmt::skip]
const SHAPES: &[TokenShape] = &[
    // OpenAI, Anthropic, OpenRouter, and the many that imitate them
    shape("sk-ant-",                   Word,     10, Mark),
    shape("sk-proj-",                  Word,     10, Mark),
    shape("sk-svcacct-",               Word,     10, Mark),
    shape("sk-admin-",                 Word,     10, Mark),
    shape("sk-or-",                    Word,     10, Mark),
    shape("sk-",                       Word,     16, Stretched),
    // other model providers
    shape("hf_",                       Letters,  20, Mark),
    shape("api_org_",                  Letters,  20, Mark),
    shape("gsk_",                      Letters,  20, Mark),
    shape("xai-",                      Letters,  20, Mark),
    shape("pplx-",                     Letters,  20, Mark),
    shape("r8_",                       Letters,  20, Mark),
    shape("nvapi-",                    Word,     20, Mark),
    shape("tvly-",                     Word,     16, Mark),
    shape("csk-",                      Letters,  20, Mark),
    // GitHub and GitLab
    shape("ghp_",                      Word,     16, Mark),
    shape("gho_",                      Word,     16, Mark),
    shape("ghu_",                      Word,     16, Mark),
    shape("ghs_",                      Word,     16, Mark),
    shape("ghr_",                      Word,     16, Mark),
    shape("github_pat_",               Word,     16, Mark),
    shape("glpat-",                    Dotted,   16, Mark),
    shape("gloas-",                    Dotted,   16, Mark),
    shape("gldt-",                     Dotted,   16, Mark),
    shape("glrt-",                     Dotted,   16, Mark),
    shape("glcbt-",                    Dotted,   16, Mark),
    shape("glptt-",                    Dotted,   16, Mark),
    shape("glft-",                     Dotted,   16, Mark),
    shape("glagent-",                  Dotted,   16, Mark),
    // Clouds
    shape("AKIA",                      Capitals, 16, Length),
    shape("ASIA",                      Capitals, 16, Length),
    shape("AIza",                      Word,     30, Length),
    shape("ya29.",                     Dotted,   20, Mark),
    shape("GOCSPX-",                   Word,     20, Mark),
    shape("LTAI",                      Letters,  16, Stretched),
    shape("dop_v1_",                   Letters,  32, Mark),
    shape("doo_v1_",                   Letters,  32, Mark),
    shape("dor_v1_",                   Letters,  32, Mark),
    shape("dapi",                      Letters,  32, Stretched),
    shape("hvs.",                      Word,     20, Mark),
    shape("hvb.",                      Word,     20, Mark),
    shape("tskey-",                    Word,     16, Mark),
    shape("sbp_",                      Letters,  32, Mark),
    shape("pul-",                      Letters,  32, Mark),
    // Chat, payment, mail, tracking
    shape("xoxa-",                     Word,     10, Mark),
    shape("xoxb-",                     Word,     10, Mark),
    shape("xoxc-",                     Word,     10, Mark),
    shape("xoxd-",                     Word,     10, Mark),
    shape("xoxe-",                     Word,     10, Mark),
    shape("xoxe.",                     Dotted,   10, Mark),
    shape("xoxo-",                     Word,     10, Mark),
    shape("xoxp-",                     Word,     10, Mark),
    shape("xoxr-",                     Word,     10, Mark),
    shape("xoxs-",                     Word,     10, Mark),
    shape("xapp-",                     Word,     10, Mark),
    shape("hooks.slack.com/services/", Path,     20, Mark),
    shape("discord.com/api/webhooks/", Path,     20, Mark),
    shape("sk_live_",                  Letters,  10, Mark),
    shape("rk_live_",                  Letters,  10, Mark),
    shape("sk_test_",                  Letters,  10, Mark),
    shape("rk_test_",                  Letters,  10, Mark),
    shape("whsec_",                    Letters,  16, Mark),
    shape("sq0atp-",                   Word,     16, Mark),
    shape("sq0csp-",                   Word,     16, Mark),
    shape("shpat_",                    Letters,  20, Mark),
    shape("shpca_",                    Letters,  20, Mark),
    shape("shppa_",                    Letters,  20, Mark),
    shape("shpss_",                    Letters,  20, Mark),
    shape("SG.",                       Dotted,   32, Mark),
    shape("lin_api_",                  Letters,  20, Mark),
    shape("ntn_",                      Letters,  20, Mark),
    shape("figd_",                     Word,     20, Mark),
    shape("ATATT3",                    Word,     20, Mark),
    shape("glsa_",                     Word,     20, Mark),
    shape("glc_",                      Letters,  20, Mark),
    shape("sntrys_",                   Word,     20, Mark),
    shape("sntryu_",                   Letters,  20, Mark),
    shape("NRAK-",                     Capitals, 16, Mark),
    shape("PMAK-",                     Word,     20, Mark),
    shape("dp.pt.",                    Letters,  20, Mark),
    shape("dp.st.",                    Dotted,   20, Mark),
    shape("ops_eyJ",                   Word,     20, Mark),
    shape("AGE-SECRET-KEY-1",          Capitals, 20, Mark),
    // Package registries
    shape("npm_",                      Letters,  20, Mark),
    shape("pypi-Ag",                   Word,     16, Mark),
    shape("pypi-",                     Word,     16, Stretched),
    shape("rubygems_",                 Letters,  20, Mark),
    shape("dckr_pat_",                 Word,     16, Mark),
    shape("dckr_oat_",                 Word,     16, Mark),
];

/// For every first byte of a prefix, the possible second bytes, as a bit set of their low five bits. Most words match
/// none.
const BEGINNINGS: [u32; 256] = {
    let mut beginnings = [0; 256];
    let mut at = 0;
    while at < SHAPES.len() {
        let prefix = SHAPES[at].prefix.as_bytes();
        beginnings[prefix[0] as usize] |= 1 << (prefix[1] & 31);
        at += 1;
    }
    beginnings
};

/// Returns the end of the token that begins at `at`, if there is one; `whole_word` when it begins its word.
pub(super) fn find(segment: &ScanSegment<'_>, at: usize, whole_word: bool) -> Option<usize> {
    let (first, second) = (segment.at(at)?, segment.at(at + 1)?);
    let is_likely = BEGINNINGS[usize::from(first)] & 1 << (second & 31) != 0;
    let known = is_likely.then(|| {
        SHAPES
            .iter()
            .filter(|shape| shape.prefix.as_bytes()[0] == first)
            .filter(|shape| segment.has(at, shape.prefix))
            .find_map(|shape| shape.find(segment, at + shape.prefix.len()))
    });
    known.flatten().or_else(|| {
        // These searches scan the whole word, so they run once per word.
        (whole_word.then(|| find_web_token(segment, at)).flatten())
            .or_else(|| whole_word.then(|| find_crate_token(segment, at)).flatten())
    })
}

impl TokenShape {
    fn find(&self, segment: &ScanSegment<'_>, body: usize) -> Option<usize> {
        let look = segment.while_at(body, LOOK, |byte| self.body.matches(byte));
        let begun = segment.text(body..look);
        let proven = match self.proof {
            Length => true,
            Mark => begun
                .bytes()
                .any(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase()),
            Stretched => begun
                .split(|c: char| !c.is_ascii_alphanumeric())
                .any(|part| part.len() >= 16 && is_mixed(part)),
        };
        if begun.len() < self.least || !proven {
            return None;
        }
        let end = segment.while_at(look, usize::MAX, |byte| self.body.matches(byte));
        // A full stop or slash after the token belongs to the sentence.
        let token = segment.text(body..end).trim_end_matches(['.', '/']);
        Some(body + token.len())
    }
}

impl TokenBody {
    fn matches(self, byte: u8) -> bool {
        match self {
            Letters => byte.is_ascii_alphanumeric(),
            Capitals => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
            Word => is_word(byte),
            Dotted => is_word(byte) || byte == b'.',
            Path => is_word(byte) || byte == b'.' || byte == b'/',
        }
    }
}

/// Returns the end of a JSON Web Token, `eyJ….eyJ….…`, complete or truncated after its first dot.
fn find_web_token(segment: &ScanSegment<'_>, at: usize) -> Option<usize> {
    if !segment.has(at, "eyJ") {
        return None;
    }
    let mut end = segment.while_at(at, usize::MAX, is_word);
    // An encrypted token may have an empty part after the first dot.
    let payload = if segment.has(end, "..") {
        end + 2
    } else {
        end + 1
    };
    if end - at < 12
        || segment.at(end)? != b'.'
        || segment.while_at(payload, 10, is_word) < payload + 10
    {
        return None;
    }
    while segment.at(end) == Some(b'.') {
        let part = segment.while_at(end + 1, usize::MAX, is_word);
        if part == end + 1 && segment.at(part) != Some(b'.') {
            break;
        }
        end = part;
    }
    Some(end)
}

/// Returns the end of a crates.io token: `cio` and 32 letters and digits.
fn find_crate_token(segment: &ScanSegment<'_>, at: usize) -> Option<usize> {
    if !segment.has(at, "cio") {
        return None;
    }
    let end = segment.while_at(at, usize::MAX, |byte| byte.is_ascii_alphanumeric());
    let fits = end - at == 35 && is_mixed(segment.text(at + 3..end));
    (fits && !segment.is_walled(end)).then_some(end)
}

#[cfg(test)]
mod tests {
    use crate::redact::tests::{BODY, assert_shown, token};
    use crate::redact::{MASK, redact};

    #[test]
    fn tokens_are_known_by_their_shape() {
        let hex = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
        let tokens = [
            token("sk-", &BODY[..24]),
            token("sk-", &hex[..32]),
            token("sk-", "test-1234567890abcdef"),
            token("sk-proj-", "aB3_dE5-gH7jK9mN1pQ3sT5vW7yZ"),
            token("sk-ant-", "api03-aB3_dE5-gH7jK9mN1pQ3sT5vW7yZ-AA"),
            token("sk-ant-", "canary-0001"),
            token("sk-or-", &format!("v1-{hex}")),
            token("ghp_", &BODY[..36]),
            token("gho_", &BODY[..36]),
            token("ghu_", &BODY[..36]),
            token("ghs_", &BODY[..36]),
            token("ghr_", &BODY[..36]),
            token(
                "github_pat_",
                "11ABCDEFG0aB3dE5gH7jK9_mN1pQ3sT5vW7yZ9bC1dE3fG5",
            ),
            token("glpat-", "aB3dE5gH7-jK9mN1pQ3s"),
            token("AKIA", "IOSFODNN7EXAMPLE"),
            token("ASIA", "IOSFODNN7EXAMPLE"),
            token("AIza", "SyD-aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1d"),
            token("xoxb-", "123456789012-1234567890123-aB3dE5gH7jK9"),
            token("xoxp-", "123456789012-abcdef"),
            token("sk_live_", "aB3dE5gH7jK9mN1pQ3sT5vW7"),
            token("rk_live_", "aB3dE5gH7jK9mN1pQ3sT5vW7"),
            token("npm_", &BODY[..36]),
            token("pypi-", "AgEIcHlwaS5vcmcCJGFCM2RFNWdI"),
            token("hf_", "aBcDeFgHiJkLmNoPqRsTuVwXyZaBcDeFgH"),
            token("cio", &BODY[..32]),
            token("dop_v1_", hex),
            token(
                "SG.",
                "aB3dE5gH7jK9mN1pQ3sT5v.W7yZ9bC1dE3fG5hJaB3dE5gH7jK9mN1pQ3sT5v",
            ),
            token("ya29.", "a0AfH6SMBx-aB3dE5gH7jK9"),
            token("hvs.", "CAESIaB3dE5gH7jK9mN1pQ3s"),
            token(
                "eyJ",
                "hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.SflKxwRJSMeKKF2QT4fwpMeJf36P",
            ),
            token("eyJ", "hbGciOiJub25lIn0.eyJzdWIiOiIxMjM0In0"),
            token(
                "eyJ",
                "hbGciOiJSU0EtT0FFUCJ9..QR1Owv2ug2WyPBnb.5eym8TW_c8SuK0ltJ.XFBoMYUZodet",
            ),
        ];
        for token in &tokens {
            assert_eq!(redact(token), MASK, "{token}");
            for (before, after) in [
                ("a ", " b"),
                ("", "\n"),
                ("\"", "\""),
                ("('", "')"),
                ("{\"out\":\"line\\n", "\\nline\"}"),
                ("\u{1b}[32m", "\u{1b}[0m"),
                ("토큰", "입니다"),
                ("see ", ". Then"),
                ("x=", "&y=1"),
                ("u%3D", "%26"),
            ] {
                assert_shown(
                    &format!("{before}{token}{after}"),
                    &format!("{before}{MASK}{after}"),
                );
            }
        }
    }

    #[test]
    fn webhook_addresses_are_tokens() {
        let hook = token(
            "hooks.slack.com/services/",
            "T00000000/B00000000/aB3dE5gH7jK9mN1pQ3sT5vW7",
        );
        assert_shown(&format!("curl https://{hook}."), "curl https://[redacted].");
    }
}

// Package auth says who calls and what they may do: bearer tokens of an OpenID
// Connect provider, and static tokens from a file for senders that know no
// OpenID Connect.
//
// Guarantees:
//   - Without a token, or with one that is not verified, no handler behind
//     [Authenticator.Authenticate] runs. Without authentication configured
//     every caller is [Local] with all scopes, which is for loopback only.
//   - No part of a token reaches a log, a metric or an answer.
//   - A provider that is away, at the start or later, stops nothing: tokens of
//     known keys are still verified, others get a 503.
//   - No caller can make us hammer the provider: it is asked for its keys once
//     in five seconds at most, whatever comes.
//   - A key that the provider withdraws is trusted for five minutes at most,
//     unless the provider is away. A verified token is not verified again for
//     up to a minute, but is as soon as the keys changed. A static token ends a
//     second after it left the file.
//
// Discovery is go-oidc's. Tokens are verified with go-jose, which go-oidc uses
// too: its own verifier is made for ID tokens, knows one audience, no clock
// skew, and asks the provider for keys at every bad signature.
package auth

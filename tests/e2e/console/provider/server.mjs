// A provider of OpenID Connect with one client, the console. Any password is accepted, as in the pages that the library
// brings for development. The user "ada" belongs to groups, and each other user to none.
import Provider from "oidc-provider";

const [port, console_url, secret] = process.argv.slice(2);
const issuer = `http://127.0.0.1:${port}`;
const groups = { ada: ["platform", "system:masters"] };

const provider = new Provider(issuer, {
  clients: [{
    client_id: "console",
    client_secret: secret,
    redirect_uris: [`${console_url}/sign-in/callback`],
    post_logout_redirect_uris: [`${console_url}/sign-in`],
    grant_types: ["authorization_code"],
    response_types: ["code"],
  }],
  claims: { openid: ["sub"], email: ["email", "email_verified"], groups: ["groups"] },
  conformIdTokenClaims: false,
  cookies: { keys: ["of this test only"] },
  findAccount: (_context, id) => ({
    accountId: id,
    claims: () => ({ sub: id, email: `${id}@example.org`, email_verified: true, groups: groups[id] ?? [] }),
  }),
  pkce: { required: () => true },
  ttl: { Interaction: 600, Session: 600, Grant: 600, IdToken: 600, AccessToken: 600 },
});

provider.listen(Number(port), "127.0.0.1");

// Passkeys: the browser signs what hived asks for. This script carries bytes, and decides nothing.
const bytes = (text) => Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (char) => char.charCodeAt(0));
const text = (buffer) => btoa(String.fromCharCode(...new Uint8Array(buffer))).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");

function fail(form, error) {
  const place = form.querySelector(".fault");
  place.textContent = `The passkey was not used: ${error.message}`;
  place.hidden = false;
  delete form.dataset.sent;
}

async function sign(begun) {
  const credential = await navigator.credentials.get({
    publicKey: {
      challenge: bytes(begun.challenge), rpId: begun.rp_id, userVerification: "required", timeout: 120000,
      allowCredentials: (begun.credentials ?? []).map((id) => ({ type: "public-key", id: bytes(id) })),
    },
  });
  const { response } = credential;
  return {
    nonce: begun.nonce, credential: text(credential.rawId), client_data: text(response.clientDataJSON),
    authenticator_data: text(response.authenticatorData), signature: text(response.signature),
  };
}

async function make(begun) {
  const id = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(begun.account));
  const credential = await navigator.credentials.create({
    publicKey: {
      challenge: bytes(begun.challenge), rp: { id: begun.rp_id, name: "hive" }, timeout: 120000, attestation: "none",
      user: { id, name: begun.account, displayName: begun.account },
      pubKeyCredParams: [{ type: "public-key", alg: -8 }, { type: "public-key", alg: -7 }, { type: "public-key", alg: -257 }],
      excludeCredentials: (begun.credentials ?? []).map((each) => ({ type: "public-key", id: bytes(each) })),
      authenticatorSelection: { residentKey: "preferred", userVerification: "required" },
    },
  });
  const { response } = credential;
  return { client_data: text(response.clientDataJSON), attestation: text(response.attestationObject) };
}

function onSubmit(id, answer) {
  const form = document.getElementById(id);
  form?.addEventListener("submit", async (event) => {
    event.preventDefault();
    event.stopPropagation();
    try {
      form.elements.assertion.value = JSON.stringify(await answer(form));
      form.submit();
    } catch (error) {
      fail(form, error);
    }
  });
  return form;
}

const begun = (form) => JSON.parse(form.dataset.challenge);
onSubmit("passkey-confirm", (form) => sign(begun(form)));
onSubmit("passkey-make", (form) => { form.elements.nonce.value = begun(form).nonce; return make(begun(form)); });
const login = onSubmit("passkey-login", async () => {
  const response = await fetch("/login/passkey", { method: "POST", body: new URLSearchParams() });
  const value = await response.json();
  if (!response.ok) throw new Error(value.error);
  return sign(value);
});
if (login && globalThis.PublicKeyCredential) login.hidden = false;

// A link that is pasted into a tab with this page changes the fragment alone.
function followLink() {
  const link = document.getElementById("link");
  if (!link || !location.hash.startsWith("#link_")) return;
  link.elements.secret.value = location.hash;
  history.replaceState(null, "", "/login");
  link.submit();
}
addEventListener("hashchange", followLink);
followLink();

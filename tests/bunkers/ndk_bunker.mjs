// A NIP-46 signer nobody here wrote: NDK's NDKNip46Backend, on which nsecbunkerd stands.
//
//   node ndk_bunker.mjs      configuration and commands on stdin: see leashed.cjs and process.py
//
// The signer's key is the user's key: the library knows no other. Without `known`, every client is
// allowed everything but what `refuse` names; with it, only those listed and whoever connects with
// the secret. `auth_url` and `nostrconnect` are played as nsecbunkerd and nsec.app play them with
// this library: a response sent through its `rpc`, and the true answer once `approve` is said. What
// a wrong secret is told is nsecbunkerd's text: the library itself takes no secret at all.
import NDK, { NDKNip46Backend, NDKPrivateKeySigner } from '@nostr-dev-kit/ndk'
import WebSocket from 'ws'
import knocking from './knock.cjs'
import leashed from './leashed.cjs'

const { isKnock, untilReachable } = knocking
const { receive, run, say } = leashed
const KIND = 24133
const CONNECT_MS = 1000 // longer only where a relay is down

globalThis.WebSocket ??= WebSocket

class Backend extends NDKNip46Backend {
  config
  known
  waiting = []

  async applyToken(client, token) {
    if (this.config.secret && token !== this.config.secret) throw new Error('Invalid token')
    this.known?.add(client)
  }

  async permits({ id, pubkey, method }) {
    if (isKnock(pubkey)) return true
    if (this.config.refuse.includes(method)) return false
    if (this.known && !this.known.has(pubkey)) return false
    if (this.config.auth_url && method !== 'ping') await this.challenge(id, pubkey)
    return true
  }

  async challenge(id, client) {
    const approved = new Promise((resolve) => this.waiting.push(resolve))
    await this.rpc.sendResponse(id, client, 'auth_url', KIND, this.config.auth_url)
    await approved
  }

  approve() {
    this.config.auth_url = null
    for (const resolve of this.waiting.splice(0)) resolve()
  }
}

function listen(backend, config) {
  const parse = backend.rpc.parseEvent.bind(backend.rpc)
  backend.rpc.parseEvent = async (event) => {
    const request = await parse(event)
    if (!isKnock(event.pubkey)) await receive(config, request, event.pubkey)
    return request
  }
}

async function serve(config, relays, signer) {
  const ndk = new NDK({ explicitRelayUrls: relays, enableOutboxModel: false, autoConnectUserRelays: false })
  await ndk.connect(CONNECT_MS)
  const backend = new Backend(ndk, signer, (request) => backend.permits(request), relays)
  backend.config = config
  backend.known = config.known && new Set(config.known)
  listen(backend, config)
  await backend.start()
  await untilReachable(relays, signer.pubkey)
  return backend
}

function bunkerUri(signer, config) {
  const query = new URLSearchParams(config.relays.map((url) => ['relay', url]))
  if (config.secret) query.append('secret', config.secret)
  return `bunker://${signer.pubkey}?${query}`
}

/** The signer's side of nostrconnect: answer a connect request that was never sent. */
async function connectTo(backend, uri) {
  const { host: client, searchParams } = new URL(uri)
  const foreign = searchParams.getAll('relay').filter((url) => !backend.config.relays.includes(url))
  if (foreign.length) throw new Error(`not a relay of this bunker: ${foreign}`)
  backend.known?.add(client)
  await backend.rpc.sendResponse('nostrconnect', client, searchParams.get('secret'))
}

run(async (config) => {
  const signer = new NDKPrivateKeySigner(config.user)
  const backend = await serve(config, config.relays, signer)
  say({ ready: true, user: signer.pubkey, uri: bunkerUri(signer, config) })
  return {
    approve: () => backend.approve(),
    nostrconnect: (uri) => connectTo(backend, uri),
  }
})

// A NIP-46 signer nobody here wrote: snstr's, in two makes.
//
//   node snstr_bunker.cjs      configuration and commands on stdin: see leashed.cjs and process.py
//
// `make: "simple"` is SimpleNIP46Bunker: errors are plain texts. `make: "full"` is
// NostrRemoteSignerBunker: errors are JSON texts {code, message}, it counts requests, drops a
// request id that it has seen, and its auth challenge has a form of its own (`auth_url` beside
// `result: "auth_required"`; `approve` then lets the client in, but answers nothing by itself).
// Both forget their clients when they end, and neither can be given a nostrconnect:// URI.
// Must reach into the library in one place only, `engine.profile`: no hook shows the requests.
const { NostrRemoteSignerBunker, SimpleNIP46Bunker, getPublicKey } = require('snstr')
const { receive, run, say } = require('./leashed.cjs')
const { isKnock, untilReachable } = require('./knock.cjs')

const METHODS = [
  'sign_event', 'get_public_key', 'ping', 'get_relays',
  'nip04_encrypt', 'nip04_decrypt', 'nip44_encrypt', 'nip44_decrypt',
]
const UNLIMITED = { maxRequestsPerMinute: 1e6, maxRequestsPerHour: 1e6, burstSize: 1e6 }

function simple(config, user, signer) {
  const options = { secret: config.secret ?? undefined, defaultPermissions: METHODS }
  const bunker = new SimpleNIP46Bunker(config.relays, user, signer, options)
  // A client may ask for a permission when it connects, and gets it: take it away each time.
  const refuse = (request, client) => {
    for (const method of config.refuse) bunker.removeClientPermission(client, method)
    if (request.method !== 'sign_event' || !config.refuse.includes('sign_event')) return
    bunker.removeClientPermission(client, `sign_event:${JSON.parse(request.params[0]).kind}`)
  }
  return { bunker, refuse }
}

function full(config, user, signer) {
  const bunker = new NostrRemoteSignerBunker({
    userPubkey: user,
    signerPubkey: signer,
    relays: config.relays,
    secret: config.secret ?? undefined,
    defaultPermissions: METHODS,
    requireAuthChallenge: Boolean(config.auth_url),
    authUrl: config.auth_url ?? undefined,
    rateLimitConfig: config.burst ? { ...UNLIMITED, burstSize: config.burst } : UNLIMITED,
  })
  bunker.setPermissionHandler((client, method) => (config.refuse.includes(method) ? false : null))
  return { bunker, refuse: () => {} }
}

const MAKES = { simple, full }

function listen(bunker, config, refuse) {
  const profile = bunker.engine.profile
  const before = profile.beforeRequest
  profile.beforeRequest = async (request, client) => {
    if (!isKnock(client)) {
      await receive(config, request, client)
      refuse(request, client)
    }
    return before ? before(request, client) : { action: 'continue' }
  }
}

run(async (config) => {
  const [user, signer] = [getPublicKey(config.user), getPublicKey(config.signer)]
  const { bunker, refuse } = MAKES[config.make](config, user, signer)
  bunker.setUserPrivateKey(config.user)
  bunker.setSignerPrivateKey(config.signer)
  listen(bunker, config, refuse)
  await bunker.start()
  await untilReachable(config.relays, signer)
  say({ ready: true, user, uri: bunker.getConnectionString() })
  return {
    approve: (client) => {
      if (!bunker.resolveAuthChallenge(client)) throw new Error('nobody waits to be approved')
    },
  }
})

// Knocks at a bunker as a stranger would, until it answers: that proves its subscription, which no
// library reports. Requests are ephemeral, so that one sent too early would be lost.
const { WebSocket } = require('ws')
const { finalizeEvent, generateSecretKey, getPublicKey, nip44 } = require('nostr-tools')

const KIND = 24133
const EVERY_MS = 100

const strangers = new Set()

/** Whether a request is one of ours, which the launcher does not want to hear of. */
function isKnock(client) {
  return strangers.has(client)
}

function ping(secret, signer) {
  const body = JSON.stringify({ id: 'knock', method: 'ping', params: [] })
  const content = nip44.encrypt(body, nip44.getConversationKey(secret, signer))
  const created_at = Math.floor(Date.now() / 1000)
  return finalizeEvent({ kind: KIND, created_at, content, tags: [['p', signer]] }, secret)
}

/** True once the signer answered over this relay, false where the relay is not there. */
function knock(url, signer) {
  const secret = generateSecretKey()
  const stranger = getPublicKey(secret)
  strangers.add(stranger)
  const socket = new WebSocket(url)
  let timer
  return new Promise((resolve) => {
    socket.on('open', () => {
      socket.send(JSON.stringify(['REQ', 'knock', { kinds: [KIND], '#p': [stranger] }]))
      timer = setInterval(() => socket.send(JSON.stringify(['EVENT', ping(secret, signer)])), EVERY_MS)
    })
    socket.on('message', (data) => {
      const [type, , event] = JSON.parse(data)
      if (type === 'EVENT' && event.pubkey === signer) resolve(true)
    })
    socket.on('error', () => resolve(false))
  }).finally(() => {
    clearInterval(timer)
    socket.close()
  })
}

/** Waits until the signer answers over every relay that is up; there must be one. */
async function untilReachable(relays, signer) {
  const reached = await Promise.all(relays.map((url) => knock(url, signer)))
  if (!reached.includes(true)) throw new Error(`no relay of ${relays} is up`)
}

module.exports = { isKnock, untilReachable }

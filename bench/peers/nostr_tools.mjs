// The peer nostr-tools: how fast SimplePool.publish gets events to relays that say OK.
//
//   node nostr_tools.mjs <events.jsonl> <url1,url2,...> [concurrency=512] [corked|plain]
//
// Promises: every event goes to every relay, at most `concurrency` publish calls are in flight, and
// the clock runs only while publishing: events are parsed and sockets open before it starts.
// Prints one JSON line {"seconds", "oks", "failed"}; oks + failed = events x relays.
// The WebSocket is `ws` (Node 20 has a global one only behind a flag, and it measured slower), with
// all frames of one turn of the event loop sent together, a third faster; `plain` leaves that out.
import { readFileSync } from 'node:fs'
import { SimplePool, useWebSocketImplementation } from 'nostr-tools/pool'
import WebSocket from 'ws'

const DEFAULT_CONCURRENCY = 512
const WS_OPTIONS = { perMessageDeflate: false, skipUTF8Validation: true }

class PlainSocket extends WebSocket {
  constructor(url) {
    super(url, WS_OPTIONS)
  }
}

class CorkedSocket extends PlainSocket {
  #corked = false

  send(message) {
    if (!this.#corked) this.#cork(this._socket)
    super.send(message)
  }

  #cork(socket) {
    this.#corked = true
    socket.cork()
    process.nextTick(() => {
      this.#corked = false
      socket.uncork()
    })
  }
}

const SOCKETS = { corked: CorkedSocket, plain: PlainSocket }

function readEvents(path) {
  return readFileSync(path, 'utf8').trimEnd().split('\n').map((line) => JSON.parse(line))
}

async function openPool(urls, socket) {
  useWebSocketImplementation(SOCKETS[socket])
  const pool = new SimplePool()
  await Promise.all(urls.map((url) => pool.ensureRelay(url)))
  return pool
}

/** Publishes all events, `concurrency` at a time, and counts how each relay answered. */
async function publishAll(pool, urls, events, concurrency) {
  const count = { oks: 0, failed: 0 }
  let next = 0
  const publishSome = async () => {
    while (next < events.length) {
      for (const result of await Promise.allSettled(pool.publish(urls, events[next++]))) {
        count[result.status === 'fulfilled' ? 'oks' : 'failed'] += 1
      }
    }
  }
  await Promise.all(Array.from({ length: concurrency }, publishSome))
  return count
}

async function main([path, urlList, concurrency = DEFAULT_CONCURRENCY, socket = 'corked']) {
  if (!urlList || !(socket in SOCKETS)) throw new Error('usage: see the head of this file')
  const urls = urlList.split(',')
  const events = readEvents(path)
  const pool = await openPool(urls, socket)
  const start = performance.now()
  const count = await publishAll(pool, urls, events, Number(concurrency))
  const seconds = (performance.now() - start) / 1000
  console.log(JSON.stringify({ seconds, ...count }))
  pool.destroy()
}

await main(process.argv.slice(2))

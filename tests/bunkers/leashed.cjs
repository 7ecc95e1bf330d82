// What both bunkers share: JSON lines in and out, a leash to whoever started them, and the policy
// that tests may change while they run.
//
// Promises: the first line of stdin is the configuration, every later one a command that is answered
// by `{"done": name}` or `{"failed": name, "why": text}`; stdout carries nothing but JSON lines, and
// the process ends with its stdin, so that it never outlives its launcher.
const readline = require('node:readline')

// The libraries log to the console; stdout is for the launcher.
console.log = console.info = console.debug = console.error

function say(message) {
  process.stdout.write(JSON.stringify(message) + '\n')
}

async function obey(commands, line) {
  const [name, value] = Object.entries(JSON.parse(line))[0]
  try {
    await commands[name](value)
    say({ done: name })
  } catch (error) {
    say({ failed: name, why: String(error?.message ?? error) })
  }
}

/** Calls `start(config)` with the first line; what it returns are the commands it obeys. */
function run(start) {
  const lines = readline.createInterface({ input: process.stdin })
  let commands
  lines.on('line', (line) => {
    if (commands) return obey(commands, line)
    commands = {}
    const config = JSON.parse(line)
    start(config).then(
      (more) => Object.assign(commands, more, { policy: (change) => Object.assign(config, change) }),
      (error) => {
        console.error(error)
        process.exit(1)
      },
    )
  })
  lines.on('close', () => process.exit(0))
}

function sleep(seconds) {
  return new Promise((resolve) => setTimeout(resolve, seconds * 1000))
}

/** Tells the launcher of a request, then holds it back as long as the policy says. */
async function receive(config, request, client) {
  say({ request: request.method, id: request.id, client, params: request.params })
  const seconds = config.delays[request.method]
  if (seconds) await sleep(seconds)
}

module.exports = { receive, run, say, sleep }

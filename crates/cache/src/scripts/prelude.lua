-- The protocol of model.rs inside Redis. KEYS[1]: the entry. ARGV[1]: the time of a test's clock in ms; empty: the
-- server's time. ARGV[2]: the channel of notifications.
local NONE = string.rep('\0', 16)
local DEAD_LEASE_KEPT = 60000
local TIME_END = 9007199254740992
-- A test's clock does not advance with the server's.
local GRACE = 3600000

local simulated = tonumber(ARGV[1])
local now = simulated
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end

local function gone_at(entry)
  local lease = 0
  if entry.token ~= NONE then lease = entry.lease_until + DEAD_LEASE_KEPT end
  return math.max(lease, entry.keep_until, entry.rate_until)
end

local function forget_value(entry)
  entry.kind, entry.cost, entry.fresh_until, entry.keep_until, entry.value = 0, 0, 0, 0, ''
end

local function usable(entry)
  return entry.kind ~= 0 and now < entry.keep_until
end

local function holds(entry, token)
  return token ~= NONE and entry.token == token and now < entry.lease_until
end

local function decode(raw)
  if #raw < 56 then return nil end
  local magic, version, kind, awaited, cost, fresh, keep, lease, rate =
    struct.unpack('>BBBBI4I8I8I8I8', raw)
  if magic ~= 0xfb or version ~= 1 or kind > 2 or awaited > 1 then return nil end
  for _, time in ipairs({fresh, keep, lease, rate}) do
    if time < 0 or time >= TIME_END then return nil end
  end
  return {
    kind = kind, awaited = awaited, cost = cost, fresh_until = fresh, keep_until = keep,
    lease_until = lease, rate_until = rate, token = raw:sub(41, 56), value = raw:sub(57),
  }
end

-- The entry, and its bytes if it is one of ours. GET fails on a hash or a list.
local function load()
  local raw = redis.pcall('GET', KEYS[1])
  local entry = type(raw) == 'string' and decode(raw)
  if not entry or now >= gone_at(entry) then
    raw = false
    entry = {awaited = 0, lease_until = 0, rate_until = 0, token = NONE}
    forget_value(entry)
  elseif not usable(entry) then
    forget_value(entry)
  end
  return entry, raw
end

local function save(entry)
  local ttl = gone_at(entry) - now
  if ttl <= 0 then
    redis.call('DEL', KEYS[1])
    return
  end
  if simulated then ttl = ttl + GRACE end
  local header = struct.pack('>BBBBI4I8I8I8I8', 0xfb, 1, entry.kind, entry.awaited, entry.cost,
    entry.fresh_until, entry.keep_until, entry.lease_until, entry.rate_until)
  redis.call('SET', KEYS[1], header .. entry.token .. entry.value, 'PX', string.format('%.0f', ttl))
end

local function publish()
  redis.call('PUBLISH', ARGV[2], KEYS[1])
end

-- ARGV[3]: token. ARGV[4]: kind. ARGV[5]: duration of the fetch in ms. ARGV[6]: ms for which it is fresh. ARGV[7]:
-- ms for which it is kept after that. ARGV[8]: value. Returns whether it was stored, and whether it was published.
local entry = load()
if not holds(entry, ARGV[3]) then return {0, 0} end
local awaited = entry.awaited
entry.kind = tonumber(ARGV[4])
entry.awaited = 0
entry.cost = tonumber(ARGV[5])
entry.fresh_until = now + tonumber(ARGV[6])
entry.keep_until = entry.fresh_until + tonumber(ARGV[7])
entry.lease_until = 0
entry.rate_until = math.min(entry.rate_until, entry.fresh_until)
entry.token = NONE
entry.value = ARGV[8]
save(entry)
if awaited == 1 then publish() end
return {1, awaited}

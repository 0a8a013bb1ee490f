-- ARGV[3]: ms for which the value may be used as a stale one; -1 removes it. Returns whether there was an entry, and
-- whether it was published. Foreign values are kept.
local entry, raw = load()
if not raw then return {0, 0} end
entry.token, entry.lease_until = NONE, 0
local stale = tonumber(ARGV[3])
if stale < 0 then
  forget_value(entry)
elseif entry.kind ~= 0 then
  entry.fresh_until = 0
  entry.keep_until = math.min(entry.keep_until, now + stale)
end
local published = 0
if entry.awaited == 1 and now >= entry.rate_until then
  entry.awaited, published = 0, 1
end
save(entry)
if published == 1 then publish() end
return {1, published}

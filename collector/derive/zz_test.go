package derive
import ("testing";"math/rand/v2";"fmt")
func TestZZ(t *testing.T){
 for _,c:=range []struct{sc,seed int}{{2,1064},{7,0},{7,80},{4,80},{3,476}} {
  found:=false
  for i:=range scenarios { if !found {
   sc:=scenarios[i]
   if i!=c.sc {continue}
   arrived,truth:=simulateRun(t,rand.New(rand.NewPCG(uint64(c.seed),7)),sc)
   of:=map[string]int{}
   for i,l:=range lives(samplesOf(arrived)) { for _,s:=range l { of[s.ID.String()]=i } }
   out:=fmt.Sprint(sc.name," ",c.seed," truth ",truth," got ",derivedTokens(samplesOf(arrived)),"\n")
   for _,s:=range arrived { turns:=0; if len(s.sample.Counters.Turns)>0 {turns=int(s.sample.Counters.Turns[0].Count)}; out+=fmt.Sprintf("%d/%d:p%d,t%d,k%d ",s.life,of[s.sample.ID.String()],s.sample.Pushes,turns,tokensOf(s.sample)/1000)}
   t.Log(out)
  }}
 }
}
